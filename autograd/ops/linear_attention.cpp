#include "autograd/ops/linear_attention.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/branches.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

constexpr const char* name = "linear_attention";

FeaturesView view_features(const Array& array) {  // (B, H, F, times)
  const std::int64_t head = array.dim(2) * array.dim(3);
  return {
      .data = writable(array), .batch = array.dim(1) * head, .head = head, .time = array.dim(3)};
}

HeadsView view_values(const Array& array, std::int64_t D) {  // (B, times, H · D)
  return {.data = writable(array),
          .batch = array.dim(1) * array.dim(2),
          .head = D,
          .time = array.dim(2)};
}

// 1 where the floor took the denominator's place, else 0.
Array floored_of(const Array& scales) {
  Array floored(scales.shape(), scales.dtype());
  dispatch(scales.dtype(), [&]<class T>() {
    std::ranges::transform(scales.values<T>(), floored.mutable_values<T>().begin(),
                           [](T scale) { return T(std::signbit(scale)); });
  });
  return floored;
}

void run_check(const Array& gate, const LinearAttentionShape& shape) {
  const Shape wanted{shape.B, shape.S, shape.H};
  require(shape.causal, "{}: a gate without causality", name);
  require(gate.shape() == wanted, "{}: a gate {} for (B, S, H) = {}", name, to_string(gate.shape()),
          to_string(wanted));
}

void check_padding(const Array& padding, const LinearAttentionShape& shape) {
  require(padding.dtype() == DType::int32 && padding.shape() == Shape{shape.B, shape.S},
          "{}: key padding {} {} for (B, S) = ({}, {})", name, to_string(padding.dtype()),
          to_string(padding.shape()), shape.B, shape.S);
}

void check_scales(const Array& scales, const LinearAttentionShape& shape) {
  const Shape wanted{shape.B, shape.H, shape.S};
  require(scales.dtype() == shape.dtype && scales.shape() == wanted,
          "{}: key scales {} {} for {} {}", name, to_string(scales.dtype()),
          to_string(scales.shape()), to_string(shape.dtype), to_string(wanted));
  require(shape.floor == 0, "{}: a floor under scaled keys", name);
}

void check_state(const LinearAttentionState& state, const LinearAttentionShape& shape) {
  const Shape wanted{shape.B, shape.H, shape.F, shape.D + 1};
  require(shape.causal, "{}: a state without causality", name);
  require(state.sums.dtype() == shape.dtype && state.sums.shape() == wanted,
          "{}: a state of {} {} for {} {}", name, to_string(state.sums.dtype()),
          to_string(state.sums.shape()), to_string(shape.dtype), to_string(wanted));
}

LinearAttentionShape check(const std::vector<Tensor>& inputs,
                           const LinearAttentionOptions& options) {
  for (const Tensor& input : inputs) check_same_dtype(name, inputs[0], input);
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 3 && q.dim(0) == k.dim(0) &&
              q.dim(0) == v.dim(0) && q.dim(1) >= 1 && q.dim(1) == k.dim(1) &&
              q.dim(2) == k.dim(2) && k.dim(3) == v.dim(1) && v.dim(2) % q.dim(1) == 0,
          "{}: shapes {}, {}, {}", name, to_string(q.shape()), to_string(k.shape()),
          to_string(v.shape()));
  require(!options.causal || q.dim(3) == k.dim(3), "{}: causal, with {} queries and {} keys", name,
          q.dim(3), k.dim(3));
  require(options.floor >= 0, "{}: a floor of {}", name, options.floor);
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
  if (!shape.gate.empty()) run_check(shape.gate, shape);
  if (!shape.key_padding.empty()) check_padding(shape.key_padding, shape);
  if (!shape.key_log_scales.empty()) check_scales(shape.key_log_scales, shape);
  if (options.state) check_state(*options.state, shape);
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

}  // namespace tapestry
