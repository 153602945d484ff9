#include "autograd/ops/gated_recurrence.hpp"

#include <cstring>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/step_product.hpp"

namespace tapestry {
namespace {

struct Sizes {
  DType dtype;
  std::int64_t B, T, H, gates;

  // Return the product of a step, h (B, H) · Wᵀ (H, gates · H), and that of its gradient.
  Matmul forward() const {
    return {.dtype = dtype, .m = B, .n = gates * H, .k = H, .transpose_b = true};
  }
  Matmul backward() const { return {.dtype = dtype, .m = B, .n = H, .k = gates * H}; }
};

Sizes sizes_of(const char* op, const Tensor& x, const Tensor& weight, std::int64_t gates) {
  check_same_dtype(op, x, weight);
  const std::int64_t H = weight.rank() == 2 ? weight.dim(1) : 0;
  require(x.rank() == 3 && x.dim(2) == gates * H && weight.shape() == Shape{gates * H, H},
          "{}: x {} with weight {}; expected x (B, T, {}H) and weight ({}H, H)", op, x.shape(),
          weight.shape(), gates, gates);
  return {.dtype = x.dtype(), .B = x.dim(0), .T = x.dim(1), .H = H, .gates = gates};
}

// Calls f(read, write) for each register of n elements: read(x) returns those of x, and write(v, x)
// writes them to x. The last elements are in part of a register.
template <class T, class F>
void for_each_register(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>)
    f([i](const T* x) { return Simd<T>::load_unaligned(x + i); },
      [i](const Simd<T>& v, T* x) { v.store_unaligned(x + i); });
  if (i < n)
    f([i, n](const T* x) { return load_partial(x + i, n - i); },
      [i, n](const Simd<T>& v, T* x) { store_partial<T>(v, x + i, n - i); });
}

// Calls f(b) for each example; a step computes several functions of `elements` numbers of each.
template <class F>
void for_each_example(std::int64_t B, std::int64_t elements, F f) {
  for_each_row(B, 4 * elements, f);
}

template <class T>
const T* data_of(const Array& array) {
  return reinterpret_cast<const T*>(array.raw());
}
template <class T>
T* data_of(Array& array) {
  return reinterpret_cast<T*>(array.mutable_raw());
}

// Returns the initial states (B, H), or zeros: columns [first, first + H) of `initial`, which may
// be empty.
Array initial_states(const Sizes& s, const Array& initial, std::int64_t first = 0) {
  Array states = Array::zeros({s.B, s.H}, s.dtype);
  if (initial.empty()) return states;
  dispatch(s.dtype, [&]<class T>() {
    const T* from = data_of<T>(initial) + first;
    T* to = data_of<T>(states);
    const std::int64_t H = s.H, row = initial.dim(1);
    for_each_row(s.B, H, [=](std::int64_t b) { std::copy_n(from + b * row, H, to + b * H); });
  });
  return states;
}

// Returns the state before each step, h_0 to h_(T-1): states h_1 to h_T (B, T, H) -> (B, T, H).
Array states_before(const Sizes& s, const Array& first, const Array& states) {
  Array before(states.shape(), s.dtype);
  dispatch(s.dtype, [&]<class T>() {
    const T *h0 = data_of<T>(first), *h = data_of<T>(states);
    T* to = data_of<T>(before);
    const std::int64_t steps = s.T, H = s.H;
    for_each_row(s.B * steps, H, [=](std::int64_t row) {
      std::copy_n(row % steps == 0 ? h0 + row / steps * H : h + (row - 1) * H, H, to + row * H);
    });
  });
  return before;
}

// Adds the gradient of the recurrent weight (gates · H, H): that of its products (B, T, gates · H),
// transposed, times the states before each step (B, T, H).
void add_weight_gradient(const Sizes& s, const Array& du, const Array& before,
                         InputGradients& into) {
  into.accumulate(1, [&](Array& dweight, bool accumulate) {
    multiply_matrices({.dtype = s.dtype,
                       .m = s.gates * s.H,
                       .n = s.H,
                       .k = s.B * s.T,
                       .transpose_a = true,
                       .accumulate = accumulate},
                      {{du.raw(), before.raw(), dweight.mutable_raw()}});
  });
}

// --- LSTM ---

// The arrays of a step of an LSTM.
template <class T>
struct LstmSteps {
  Sizes s;
  T* gates;             // (B, T, 4H)
  const T *cells, *c0;  // (B, T, H), (B, H)

  T* gates_of(std::int64_t b, std::int64_t t) const { return gates + (b * s.T + t) * 4 * s.H; }
  const T* cell_before(std::int64_t b, std::int64_t t) const {
    return t == 0 ? c0 + b * s.H : cells + (b * s.T + t - 1) * s.H;
  }
};

template <class T>
void lstm_forward(const Sizes& s, const Array& x, const Array& weight, const Array& h0,
                  const Array& c0, Array& gates, Array& cells, Array& y) {
  StepProduct product(s.forward(), weight, s.T);
  const std::int64_t H = s.H;
  const T *from = data_of<T>(x), *h_0 = data_of<T>(h0);
  T *all_cells = data_of<T>(cells), *outputs = data_of<T>(y);
  const LstmSteps<T> steps{s, data_of<T>(gates), all_cells, data_of<T>(c0)};
  for_each_row(s.B, H, [&](std::int64_t b) { std::copy_n(h_0 + b * H, H, product.input<T>(b)); });
  for (std::int64_t t = 0; t < s.T; ++t) {
    product.multiply();
    for_each_example(s.B, 4 * H, [&](std::int64_t b) {
      const T *in = from + (b * s.T + t) * 4 * H, *u = product.output<T>(b),
              *before = steps.cell_before(b, t);
      T *gate = steps.gates_of(b, t), *cell = all_cells + (b * s.T + t) * H,
        *out = outputs + (b * s.T + t) * H, *next = product.input<T>(b);
      for_each_register<T>(H, [=](auto read, auto write) {
        const auto sum = [&](std::int64_t k) { return read(in + k * H) + read(u + k * H); };
        const auto i = logistic(sum(0)), f = logistic(sum(1)), g = tanh(sum(2)),
                   o = logistic(sum(3));
        const auto c = fma(f, read(before), i * g), h = o * tanh(c);
        write(i, gate), write(f, gate + H), write(g, gate + 2 * H), write(o, gate + 3 * H);
        write(c, cell), write(h, out), write(h, next);
      });
    });
  }
}

// Computes the gradient of a = x_t + W h_(t-1) in place of the gates, and that of the initial
// states (B, 2H), unless it is empty.
template <class T>
void lstm_backward(const Sizes& s, const Array& gradient, const Array& weight, const Array& cells,
                   const Array& c0, const Array& saved, Array& da, Array& dinitial) {
  StepProduct product(s.backward(), weight, s.T);
  const std::int64_t H = s.H;
  Array dcell = Array::zeros({s.B, H}, s.dtype);
  const T *dy = data_of<T>(gradient), *all_cells = data_of<T>(cells), *gates = data_of<T>(saved);
  T* dc_all = data_of<T>(dcell);
  const LstmSteps<T> steps{s, data_of<T>(da), all_cells, data_of<T>(c0)};
  for (std::int64_t t = s.T - 1; t >= 0; --t) {
    const bool is_last = t == s.T - 1;
    if (!is_last) product.multiply();
    for_each_example(s.B, 4 * H, [&](std::int64_t b) {
      const T *dh_own = dy + (b * s.T + t) * H, *dh_after = product.output<T>(b),
              *gate = gates + (b * s.T + t) * 4 * H, *cell = all_cells + (b * s.T + t) * H,
              *before = steps.cell_before(b, t);
      T *to = steps.gates_of(b, t), *next = product.input<T>(b), *dc_next = dc_all + b * H;
      for_each_register<T>(H, [=](auto read, auto write) {
        const auto i = read(gate), f = read(gate + H), g = read(gate + 2 * H),
                   o = read(gate + 3 * H), tanh_c = tanh(read(cell));
        const auto dh = is_last ? read(dh_own) : read(dh_own) + read(dh_after);
        const auto dc = fma(dh * o, T(1) - tanh_c * tanh_c, read(dc_next));
        const auto give = [&](const Simd<T>& d, std::int64_t k) {
          write(d, to + k * H), write(d, next + k * H);
        };
        give(dc * g * i * (T(1) - i), 0);
        give(dc * read(before) * f * (T(1) - f), 1);
        give(dc * i * (T(1) - g * g), 2);
        give(dh * tanh_c * o * (T(1) - o), 3);
        write(dc * f, dc_next);
      });
    });
  }
  if (dinitial.empty() || s.T == 0) return;
  product.multiply();
  T* to = data_of<T>(dinitial);
  for_each_row(s.B, H, [&](std::int64_t b) {
    std::copy_n(product.output<T>(b), H, to + 2 * b * H);
    std::copy_n(dc_all + b * H, H, to + (2 * b + 1) * H);
  });
}

// Returns h_T and c_T (B, 2H), or for T = 0 the initial states.
Array last_states(const Sizes& s, const Array& h0, const Array& c0, const Array& y,
                  const Array& cells) {
  Array last({s.B, 2 * s.H}, s.dtype);
  dispatch(s.dtype, [&]<class T>() {
    const std::int64_t H = s.H, steps = s.T, length = steps * H;
    const T *h = data_of<T>(steps > 0 ? y : h0), *c = data_of<T>(steps > 0 ? cells : c0);
    T* to = data_of<T>(last);
    for_each_row(s.B, H, [=](std::int64_t b) {
      const std::int64_t at = steps > 0 ? (b + 1) * length - H : b * H;
      std::copy_n(h + at, H, to + 2 * b * H);
      std::copy_n(c + at, H, to + (2 * b + 1) * H);
    });
  });
  return last;
}

}  // namespace

Tensor lstm(Tensor x, const Tensor& weight, const Tensor& initial, Array* last) {
  const Sizes s = sizes_of("lstm", x, weight, 4);
  const bool has_initial = !initial.value().empty();
  if (has_initial) require_array("lstm", "initial", initial.value(), s.dtype, {s.B, 2 * s.H});
  const Array h0 = initial_states(s, initial.value()), c0 = initial_states(s, initial.value(), s.H);
  Array gates = reuse(x.value()), cells({s.B, s.T, s.H}, s.dtype), y({s.B, s.T, s.H}, s.dtype);
  dispatch(s.dtype, [&]<class T>() {
    lstm_forward<T>(s, x.value(), weight.value(), h0, c0, gates, cells, y);
  });
  if (last) *last = last_states(s, h0, c0, y, cells);

  std::vector<Tensor> inputs{x, weight};
  if (has_initial) inputs.push_back(initial);
  x = Tensor();
  return record("lstm", y, inputs,
                [s, h0, c0, gates, cells, y, weight = weight.value(), has_initial](
                    const Array& gradient, InputGradients& into) {
                  Array da = reuse(gates), dinitial;
                  if (has_initial && into.wanted(2))
                    dinitial = Array::zeros({s.B, 2 * s.H}, s.dtype);
                  dispatch(s.dtype, [&]<class T>() {
                    lstm_backward<T>(s, gradient, weight, cells, c0, gates, da, dinitial);
                  });
                  into.add(0, da);
                  add_weight_gradient(s, da, states_before(s, h0, y), into);
                  if (!dinitial.empty()) into.add(2, dinitial);
                });
}

// --- GRU ---

namespace {

template <class T>
const T* state_before(const Sizes& s, const T* h0, const T* h, std::int64_t b, std::int64_t t) {
  return t == 0 ? h0 + b * s.H : h + (b * s.T + t - 1) * s.H;
}

// Computes the gates, the states, and q = u_n + b (B, T, H), whose gradient r scales.
template <class T>
void gru_forward(const Sizes& s, const Array& x, const Array& weight, const Array& bias,
                 const Array& h0, Array& gates, Array& q, Array& y) {
  StepProduct product(s.forward(), weight, s.T);
  const std::int64_t H = s.H;
  const T *from = data_of<T>(x), *b_n = data_of<T>(bias), *h_0 = data_of<T>(h0);
  T *all_gates = data_of<T>(gates), *all_q = data_of<T>(q), *states = data_of<T>(y);
  for_each_row(s.B, H, [&](std::int64_t b) { std::copy_n(h_0 + b * H, H, product.input<T>(b)); });
  for (std::int64_t t = 0; t < s.T; ++t) {
    product.multiply();
    for_each_example(s.B, 3 * H, [&](std::int64_t b) {
      const std::int64_t row = b * s.T + t;
      const T *in = from + row * 3 * H, *u = product.output<T>(b),
              *before = state_before(s, h_0, states, b, t);
      T *gate = all_gates + row * 3 * H, *own_q = all_q + row * H, *out = states + row * H,
        *next = product.input<T>(b);
      for_each_register<T>(H, [=](auto read, auto write) {
        const auto r = logistic(read(in) + read(u)), z = logistic(read(in + H) + read(u + H)),
                   un = read(u + 2 * H), shifted = b_n ? un + read(b_n) : un;
        const auto n = tanh(fma(r, shifted, read(in + 2 * H)));
        const auto h = fma(z, read(before) - n, n);
        write(r, gate), write(z, gate + H), write(n, gate + 2 * H);
        write(shifted, own_q), write(h, out), write(h, next);
      });
    });
  }
}

// Computes the gradients of x in place of the gates, of W h_(t-1) as du (B, T, 3H), and that of the
// initial states (B, H), unless it is empty.
template <class T>
void gru_backward(const Sizes& s, const Array& gradient, const Array& weight, const Array& h0,
                  const Array& y, const Array& q, const Array& saved, Array& dx, Array& du,
                  Array& dinitial) {
  StepProduct product(s.backward(), weight, s.T);
  const std::int64_t H = s.H;
  Array kept = Array::zeros({s.B, H}, s.dtype);  // z ⊙ dh, which passes by the product
  const T *dy = data_of<T>(gradient), *h_0 = data_of<T>(h0), *states = data_of<T>(y),
          *all_q = data_of<T>(q), *gates = data_of<T>(saved);
  T *all_dx = data_of<T>(dx), *all_du = data_of<T>(du), *all_kept = data_of<T>(kept);
  for (std::int64_t t = s.T - 1; t >= 0; --t) {
    const bool is_last = t == s.T - 1;
    if (!is_last) product.multiply();
    for_each_example(s.B, 3 * H, [&](std::int64_t b) {
      const std::int64_t row = b * s.T + t;
      const T *dh_own = dy + row * H, *dh_after = product.output<T>(b), *own_q = all_q + row * H,
              *gate = gates + row * 3 * H, *before = state_before(s, h_0, states, b, t);
      T *to_x = all_dx + row * 3 * H, *to_u = all_du + row * 3 * H, *next = product.input<T>(b),
        *passed = all_kept + b * H;
      for_each_register<T>(H, [=](auto read, auto write) {
        const auto r = read(gate), z = read(gate + H), n = read(gate + 2 * H);
        const auto later = is_last ? read(passed) : read(passed) + read(dh_after);
        const auto dh = read(dh_own) + later;
        const auto dn = dh * (T(1) - z) * (T(1) - n * n);
        const auto dz = dh * (read(before) - n) * z * (T(1) - z);
        const auto dr = dn * read(own_q) * r * (T(1) - r), dq = dn * r;
        write(dr, to_x), write(dz, to_x + H), write(dn, to_x + 2 * H);
        write(dr, to_u), write(dz, to_u + H), write(dq, to_u + 2 * H);
        write(dr, next), write(dz, next + H), write(dq, next + 2 * H);
        write(dh * z, passed);
      });
    });
  }
  if (dinitial.empty() || s.T == 0) return;
  product.multiply();
  T* to = data_of<T>(dinitial);
  for_each_row(s.B, H, [&](std::int64_t b) {
    map_span(H, {product.output<T>(b), all_kept + b * H}, to + b * H,
             [](auto through, auto passed) { return through + passed; });
  });
}

// Returns the last H of each 3H columns, summed over all rows: du (B, T, 3H) -> (H).
Array candidate_bias_gradient(const Sizes& s, const Array& du) {
  return sum_to(du.reshaped({s.B * s.T, 3 * s.H}), {3 * s.H}).part(2 * s.H, 3 * s.H).clone();
}

}  // namespace

Tensor gru(Tensor x, const Tensor& weight, const Tensor& bias, const Tensor& initial) {
  const Sizes s = sizes_of("gru", x, weight, 3);
  const bool has_bias = !bias.value().empty(), has_initial = !initial.value().empty();
  if (has_bias) require_array("gru", "bias", bias.value(), s.dtype, {s.H});
  if (has_initial) require_array("gru", "initial", initial.value(), s.dtype, {s.B, s.H});
  const Array h0 = initial_states(s, initial.value());
  Array gates = reuse(x.value()), q({s.B, s.T, s.H}, s.dtype), y({s.B, s.T, s.H}, s.dtype);
  dispatch(s.dtype, [&]<class T>() {
    gru_forward<T>(s, x.value(), weight.value(), bias.value(), h0, gates, q, y);
  });

  std::vector<Tensor> inputs{x, weight};
  if (has_bias) inputs.push_back(bias);
  if (has_initial) inputs.push_back(initial);
  x = Tensor();
  return record("gru", y, inputs,
                [s, h0, gates, q, y, weight = weight.value(), has_bias, has_initial](
                    const Array& gradient, InputGradients& into) {
                  const std::size_t first = has_bias ? 3 : 2;
                  Array dx = reuse(gates), du(gates.shape(), s.dtype), dinitial;
                  if (has_initial && into.wanted(first))
                    dinitial = Array::zeros({s.B, s.H}, s.dtype);
                  dispatch(s.dtype, [&]<class T>() {
                    gru_backward<T>(s, gradient, weight, h0, y, q, gates, dx, du, dinitial);
                  });
                  into.add(0, dx);
                  add_weight_gradient(s, du, states_before(s, h0, y), into);
                  if (has_bias) into.add(2, candidate_bias_gradient(s, du));
                  if (!dinitial.empty()) into.add(first, dinitial);
                });
}

}  // namespace tapestry
