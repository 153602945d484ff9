#include "autograd/ops/scan.hpp"

#include <cstring>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/step_product.hpp"

namespace tapestry {
namespace {

// Calls fn(first, count) for runs of up to 64 columns of each example of (B, T, C), where `first`
// is the index of the first element. Threads divide the runs; fn loops over time.
template <class F>
void for_each_lane(const Shape& shape, F fn) {
  constexpr std::int64_t most = 64;
  const std::int64_t B = shape[0], T = shape[1], C = shape[2], runs = (C + most - 1) / most;
  for_each_row(B * runs, T * std::min(C, most), [=](std::int64_t lane) {
    const std::int64_t column = lane % runs * most;
    fn(lane / runs * T * C + column, std::min(most, C - column));
  });
}

// Transposes (rows, columns) to (columns, rows), with elements of this many bytes.
void transpose(std::int64_t rows, std::int64_t columns, std::int64_t bytes, const std::byte* from,
               std::byte* to) {
  for_each_row(rows * columns, bytes, [=](std::int64_t i) {
    std::memcpy(to + (i % columns * rows + i / columns) * bytes, from + i * bytes, bytes);
  });
}

// Returns the gradient da (T, B, H) of the argument of tanh, from dh (B, T, H) and the states h_0
// to h_T (T + 1, B, H): da_t = (dh_t + da_(t+1) W) ⊙ (1 - h_t²). Adds the product to what follows.
Array argument_gradients(const Array& dh, const Array& states, const Array& weight) {
  const std::int64_t B = dh.dim(0), T = dh.dim(1), H = dh.dim(2);
  StepProduct product({.dtype = dh.dtype(), .m = B, .n = H, .k = H, .accumulate = true}, weight,
                      T - 1);
  Array da({T, B, H}, dh.dtype());
  dispatch(dh.dtype(), [&]<class Real>() {
    const Real *own = dh.values<Real>().data(), *all = states.values<Real>().data();
    Real* to = da.mutable_values<Real>().data();
    for (std::int64_t t = T - 1; t >= 0; --t) {
      if (t + 1 < T) product.multiply();
      for_each_row(B, H, [&, t](std::int64_t b) {
        Real *sum = product.output<Real>(b), *d = to + (t * B + b) * H;
        const Real* h = all + ((t + 1) * B + b) * H;
        if (t + 1 == T) std::copy_n(own + (b * T + t) * H, H, sum);
        map_span(H, {sum, h}, d, [](auto g, auto v) { return g - g * v * v; });
        std::copy_n(d, H, product.input<Real>(b));
        if (t > 0) std::copy_n(own + (b * T + t - 1) * H, H, sum);
      });
    }
  });
  return da;
}

// Computes the states h_1 to h_T after h_0 in `states` (T + 1, B, H), from x (B, T, H).
void compute_states(const Array& x, const Array& weight, Array& states) {
  const std::int64_t B = x.dim(0), T = x.dim(1), H = x.dim(2);
  StepProduct product(
      {.dtype = x.dtype(), .m = B, .n = H, .k = H, .transpose_b = true, .accumulate = true}, weight,
      T);
  dispatch(x.dtype(), [&]<class Real>() {
    const Real* from = x.values<Real>().data();
    Real* all = states.mutable_values<Real>().data();
    for (std::int64_t t = 0; t <= T; ++t) {
      if (t > 0) product.multiply();
      for_each_row(B, H, [&, t](std::int64_t b) {
        Real *sum = product.output<Real>(b), *h = all + (t * B + b) * H;
        if (t > 0) map_span(H, {sum}, h, [](auto v) { return tanh(v); });
        if (t == T) return;
        std::copy_n(h, H, product.input<Real>(b));
        std::copy_n(from + (b * T + t) * H, H, sum);
      });
    }
  });
}

}  // namespace

Tensor linear_recurrence(const Tensor& gate, const Tensor& x) {
  check_same_dtype("linear_recurrence", gate, x);
  require(x.rank() == 3 && broadcast("linear_recurrence", gate.shape(), x.shape()) == x.shape(),
          "linear_recurrence: gate {} with x {}; expected x (B, T, C), and a gate that broadcasts "
          "to it",
          gate.shape(), x.shape());
  const Array gates = broadcast_to(gate.value(), x.shape());
  const std::int64_t T = x.dim(1), C = x.dim(2);
  Array h(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    const Real *g = gates.values<Real>().data(), *in = x.value().values<Real>().data();
    Real* out = h.mutable_values<Real>().data();
    for_each_lane(x.shape(), [=](std::int64_t first, std::int64_t count) {
      if (T > 0) std::copy_n(in + first, count, out + first);
      for (std::int64_t at = first + C; at < first + T * C; at += C)
        map_span(count, {g + at, out + at - C, in + at}, out + at,
                 [](auto gt, auto before, auto xt) { return fma(gt, before, xt); });
    });
  });
  // Iterates in reverse order: dx_t = dh_t + g_(t+1) ⊙ dx_(t+1) and dg_t = dx_t ⊙ h_(t-1).
  return record("linear_recurrence", h, {gate, x},
                [gates, h, T, C](const Array& gradient, InputGradients& into) {
                  Array dx = gradient.unique() ? gradient : gradient.clone();
                  Array dgate = Array::zeros(h.shape(), h.dtype());
                  dispatch(h.dtype(), [&]<class Real>() {
                    const Real *g = gates.values<Real>().data(), *state = h.values<Real>().data();
                    Real *d = dx.mutable_values<Real>().data(),
                         *dg = dgate.mutable_values<Real>().data();
                    for_each_lane(h.shape(), [=](std::int64_t first, std::int64_t count) {
                      for (std::int64_t at = first + (T - 1) * C; at > first; at -= C) {
                        map_span(count, {d + at, state + at - C}, dg + at,
                                 [](auto dxt, auto before) { return dxt * before; });
                        map_span(count, {g + at, d + at, d + at - C}, d + at - C,
                                 [](auto gt, auto dxt, auto own) { return fma(gt, dxt, own); });
                      }
                    });
                  });
                  into.add(0, dgate);
                  into.add(1, dx);
                });
}

Tensor tanh_recurrence(const Tensor& x, const Tensor& weight, const Tensor& initial) {
  check_same_dtype("tanh_recurrence", x, weight);
  require(x.rank() == 3 && weight.shape() == Shape{x.dim(2), x.dim(2)},
          "tanh_recurrence: x {} with weight {}; expected x (B, T, H) and weight (H, H)", x.shape(),
          weight.shape());
  const std::int64_t B = x.dim(0), T = x.dim(1), H = x.dim(2);
  const bool has_initial = !initial.value().empty();
  if (has_initial) require_array("tanh_recurrence", "initial", initial.value(), x.dtype(), {B, H});
  const DType dtype = x.dtype();
  const std::int64_t row = H * size_of(dtype);

  Array states({T + 1, B, H}, dtype);  // h_0 to h_T, contiguous so that dW is one product
  const Array before = has_initial ? initial.value() : Array::zeros({B, H}, dtype);
  transpose(1, B, row, before.raw(), states.mutable_raw());  // copies h_0 in parallel
  compute_states(x.value(), weight.value(), states);
  Array y(x.shape(), dtype);
  transpose(T, B, row, states.raw() + B * row, y.mutable_raw());

  std::vector<Tensor> inputs{x, weight};
  if (has_initial) inputs.push_back(initial);
  // dx_t = da_t, dW = Σ da_tᵀ h_(t-1) and dh_0 = da_1 W.
  return record("tanh_recurrence", y, inputs,
                [states, weight = weight.value(), has_initial, dtype, B, T, H, row](
                    const Array& gradient, InputGradients& into) {
                  const Array da = argument_gradients(gradient, states, weight);
                  Array dx = reuse(gradient);
                  transpose(T, B, row, da.raw(), dx.mutable_raw());
                  into.add(0, dx);
                  into.accumulate(1, [&](Array& dweight, bool accumulate) {
                    multiply_matrices({.dtype = dtype,
                                       .m = H,
                                       .n = H,
                                       .k = T * B,
                                       .transpose_a = true,
                                       .accumulate = accumulate},
                                      {{da.raw(), states.raw(), dweight.mutable_raw()}});
                  });
                  if (!has_initial || T == 0) return;
                  Array dinitial = Array::zeros({B, H}, dtype);
                  multiply_matrices({.dtype = dtype, .m = B, .n = H, .k = H, .accumulate = true},
                                    {{da.raw(), weight.raw(), dinitial.mutable_raw()}});
                  into.add(2, dinitial);
                });
}

}  // namespace tapestry
