#include "autograd/ops/linear_attention.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/branches.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

constexpr const char* name = "linear_attention";

FeaturesView view_features(const Array& array) {  // takes (B, H, F, times)
  const std::int64_t head = array.dim(2) * array.dim(3);
  return {
      .data = writable(array), .batch = array.dim(1) * head, .head = head, .time = array.dim(3)};
}

HeadsView view_values(const Array& array, std::int64_t D) {  // takes (B, times, H · D)
  return {.data = writable(array),
          .batch = array.dim(1) * array.dim(2),
          .head = D,
          .time = array.dim(2)};
}

// Returns 1 where the floor replaced the denominator, else 0.
Array floored_of(const Array& scales) {
  Array floored(scales.shape(), scales.dtype());
  dispatch(scales.dtype(), [&]<class T>() {
    std::ranges::transform(scales.values<T>(), floored.mutable_values<T>().begin(),
                           [](T scale) { return T(std::signbit(scale)); });
  });
  return floored;
}

LinearAttentionShape check(const std::vector<Tensor>& inputs,
                           const LinearAttentionOptions& options) {
  for (const Tensor& input : inputs) check_same_dtype(name, inputs[0], input);
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 3 && q.dim(0) == k.dim(0) &&
              q.dim(0) == v.dim(0) && q.dim(1) >= 1 && q.dim(1) == k.dim(1) &&
              q.dim(2) == k.dim(2) && k.dim(3) == v.dim(1) && v.dim(2) % q.dim(1) == 0,
          "{}: q {}, k {} and v {}; expected (B, H, F, T), (B, H, F, S) and (B, S, H · D)", name,
          q.shape(), k.shape(), v.shape());
  require(!options.causal || q.dim(3) == k.dim(3),
          "{}: causal attention of {} queries to {} keys; expected as many keys as queries", name,
          q.dim(3), k.dim(3));
  require_value(options.floor >= 0, name, "floor", options.floor, "0 or more");
  const LinearAttentionShape shape{.dtype = q.dtype(),
                                   .B = q.dim(0),
                                   .H = q.dim(1),
                                   .T = q.dim(3),
                                   .S = k.dim(3),
                                   .F = q.dim(2),
                                   .D = v.dim(2) / q.dim(1),
                                   .causal = options.causal,
                                   .floor = options.floor,
                                   .key_padding = options.key_padding,
                                   .key_log_scales = options.key_log_scales,
                                   .gate = inputs.size() > 3 ? inputs[3].value() : Array()};
  if (!shape.gate.empty()) {
    require(shape.causal, "{}: a gate needs causal attention; set causal", name);
    require_array(name, "gate", shape.gate, shape.dtype, {shape.B, shape.S, shape.H});
  }
  if (!shape.key_padding.empty())
    require_array(name, "key_padding", shape.key_padding, DType::int32, {shape.B, shape.S});
  if (!shape.key_log_scales.empty()) {
    require_array(name, "key_log_scales", shape.key_log_scales, shape.dtype,
                  {shape.B, shape.H, shape.S});
    require_value(shape.floor == 0, name, "floor", shape.floor, "0 with key_log_scales");
  }
  if (options.state) {
    require(shape.causal, "{}: a state needs causal attention; set causal", name);
    require_array(name, "state", options.state->sums, shape.dtype,
                  {shape.B, shape.H, shape.F, shape.D + 1});
  }
  return shape;
}

}  // namespace

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gate,
                        const LinearAttentionOptions& options) {
  std::vector<Tensor> inputs{q, k, v};
  if (!gate.value().empty()) inputs.push_back(gate);
  const LinearAttentionShape shape = check(inputs, options);
  std::vector<Array> values;
  for (const Tensor& input : inputs) values.push_back(input.value());
  Array y({shape.B, shape.T, shape.H * shape.D}, shape.dtype);
  Array scales({shape.B, shape.H, shape.T}, shape.dtype);
  const auto views = [D = shape.D](const std::vector<Array>& operands, const Array& result) {
    return LinearAttentionViews{.q = view_features(operands[0]),
                                .k = view_features(operands[1]),
                                .v = view_values(operands[2], D),
                                .y = view_values(result, D)};
  };
  linear_attention_forward(shape, views(values, y), scales, options.state);
  if (options.state) return y;
  const Tensor result = record(name, y, inputs, [=](const Array& gradient, InputGradients& into) {
    std::vector<Array> sent;
    for (const Array& value : values) sent.emplace_back(value.shape(), value.dtype());
    const LinearAttentionViews d = views(sent, gradient);
    linear_attention_backward(
        shape, views(values, y), scales,
        {.dy = d.y, .dq = d.q, .dk = d.k, .dv = d.v, .dgate = sent.size() > 3 ? sent[3] : Array()});
    for (std::size_t i = 0; i < sent.size(); ++i) into.add(i, sent[i]);
  });
  return in_held_branches(
      result, [&] { return floored_of(scales); },
      [&](const Array& floored) {
        LinearAttentionShape held = shape;
        held.floored = floored;
        linear_attention_forward(held, views(values, y), scales, nullptr);
        return y;
      });
}

namespace {

// Computes sine[i] = factor · sin x[i] and cosine[i] = factor · cos x[i].
template <class T>
void sines_and_cosines(std::int64_t n, T factor, const T* x, T* sine, T* cosine) {
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>) {
    const auto [s, c] = sincos(Simd<T>::load_unaligned(x + i));
    (factor * s).store_unaligned(sine + i);
    (factor * c).store_unaligned(cosine + i);
  }
  if (i == n) return;
  const auto [s, c] = sincos(load_partial(x + i, n - i));
  store_partial<T>(factor * s, sine + i, n - i);
  store_partial<T>(factor * c, cosine + i, n - i);
}

// Computes y = x · factor and returns factor = 1 / |x|, or 0 for a row of zeros.
template <class T>
T write_unit_row(std::int64_t n, const T* x, T* y) {
  const T squares = dot_span(n, x, x);
  if (std::isnormal(squares)) {
    const T factor = T(1) / std::sqrt(squares);
    map_span(n, {x}, y, [factor](auto v) { return v * factor; });
    return factor;
  }
  // The squares overflow or vanish, but not after division by the largest element.
  map_span(n, {x}, y, [](auto v) { return abs(v); });
  const T high = max_span(n, y);
  if (squares == 0 && high <= 0) return T(0);  // y is 0 already
  map_span(n, {x}, y, [high](auto v) { return v / high; });
  const T factor = T(1) / std::sqrt(dot_span(n, y, y));
  map_span(n, {y}, y, [factor](auto v) { return v * factor; });
  return factor / high;
}

}  // namespace

Tensor sine_features(const Tensor& x) {
  check_floating("sine_features", x);
  require(x.rank() >= 2, "sine_features: x {}; expected (..., D, T)", x.shape());
  const std::int64_t D = x.dim(-2), T = x.dim(-1), rows = T == 0 ? 0 : x.size() / T;
  Shape shape = x.shape();
  shape[-2] = 2 * D;
  Array y(shape, x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    const Real factor = 1 / std::sqrt(D);
    const Real* in = x.value().values<Real>().data();
    Real* out = y.mutable_values<Real>().data();
    for_each_row(rows, T, [=](std::int64_t row) {
      Real* sine = out + (row / D * D + row) * T;
      sines_and_cosines(T, factor, in + row * T, sine, sine + D * T);
    });
  });
  return record("sine_features", y, {x},
                [y, D, T, rows, from = x.shape()](const Array& gradient, InputGradients& into) {
                  Array dx(from, y.dtype());
                  dispatch(y.dtype(), [&]<class Real>() {
                    const Real* out = y.values<Real>().data();
                    const Real* dy = gradient.values<Real>().data();
                    Real* to = dx.mutable_values<Real>().data();
                    for_each_row(rows, T, [=, D = D, T = T](std::int64_t row) {
                      const std::int64_t sine = (row / D * D + row) * T, cosine = sine + D * T;
                      map_span(T, {dy + sine, dy + cosine, out + sine, out + cosine}, to + row * T,
                               [](auto ds, auto dc, auto s, auto c) { return ds * c - dc * s; });
                    });
                  });
                  into.add(0, dx);
                });
}

Tensor unit_rows(const Tensor& x) {
  check_floating("unit_rows", x);
  require(x.rank() >= 1, "unit_rows: x () is a scalar; expected (..., D)");
  const std::int64_t n = x.dim(-1), rows = n == 0 ? 0 : x.size() / n;
  Array y(x.shape(), x.dtype()), factors({rows}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    T* factor = factors.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) {
      factor[row] = write_unit_row(n, in + row * n, out + row * n);
    });
  });
  // dx = (dy - y Σ dy y) / |x|
  return record("unit_rows", y, {x},
                [y, factors, n, rows](const Array& gradient, InputGradients& into) {
                  Array dx = reuse(gradient);
                  dispatch(y.dtype(), [&]<class T>() {
                    const T* unit = y.values<T>().data();
                    const T* factor = factors.values<T>().data();
                    const T* dy = gradient.values<T>().data();
                    T* to = dx.mutable_values<T>().data();
                    for_each_row(rows, n, [=, n = n](std::int64_t row) {
                      const std::int64_t at = row * n;
                      const T along = dot_span(n, unit + at, dy + at), f = factor[row];
                      map_span(n, {unit + at, dy + at}, to + at,
                               [along, f](auto u, auto g) { return (g - u * along) * f; });
                    });
                  });
                  into.add(0, dx);
                });
}

}  // namespace tapestry
