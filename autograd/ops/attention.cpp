#include "autograd/ops/attention.hpp"

#include <cmath>
#include <limits>

#include "autograd/kernels/attention.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"

namespace tapestry {
namespace {

// Which input holds an operand, and which of that input's side-by-side parts it is.
struct Place {
  std::size_t input;
  std::int64_t part = 0, parts = 1;
};

struct Places {
  Place q, k, v;
};

constexpr Places separate{.q = {0}, .k = {1}, .v = {2}};

std::byte* writable(const Array& array) { return const_cast<std::byte*>(array.raw()); }

// Of an array (B, H, T, D), or of one part of an array (B, T, parts · H · D).
HeadsView view(const Array& array, std::int64_t D, std::int64_t part = 0, std::int64_t parts = 1) {
  if (array.rank() == 4)
    return {.data = writable(array),
            .batch = array.dim(1) * array.dim(2) * D,
            .head = array.dim(2) * D,
            .time = D};
  const std::int64_t row = array.dim(2);
  return {.data = writable(array) + part * (row / parts) * size_of(array.dtype()),
          .batch = array.dim(1) * row,
          .head = D,
          .time = row};
}

HeadsView view(const std::vector<Array>& arrays, const Place& place, std::int64_t D) {
  return view(arrays[place.input], D, place.part, place.parts);
}

// B, T and C = H · D of an operand, whichever of the two layouts it has.
struct Extents {
  std::int64_t B, T, C;
  Extents(const Tensor& x, const Place& place)
      : B(x.dim(0)),
        T(x.dim(-2)),
        C(x.rank() == 4 ? x.dim(1) * x.dim(3) : x.dim(2) / place.parts) {}
};

std::string shapes(const std::vector<Tensor>& inputs) {
  std::string text;
  for (const Tensor& input : inputs) text += (text.empty() ? "" : ", ") + to_string(input.shape());
  return text;
}

AttentionShape check(const char* op, const std::vector<Tensor>& inputs, const Places& places,
                     const AttentionOptions& options) {
  for (const Tensor& input : inputs) {
    check_same_dtype(op, inputs[0], input);
    require(input.rank() == inputs[0].rank() && (input.rank() == 3 || input.rank() == 4),
            "{}: shapes {}", op, shapes(inputs));
  }
  for (const Place& place : {places.q, places.k, places.v})
    require(place.parts == 1 ||
                (inputs[place.input].rank() == 3 && inputs[place.input].dim(2) % place.parts == 0),
            "{}: shapes {}", op, shapes(inputs));
  const Tensor& q = inputs[places.q.input];
  const Extents query(q, places.q), key(inputs[places.k.input], places.k),
      value(inputs[places.v.input], places.v);
  const std::int64_t H = q.rank() == 4 ? q.dim(1) : options.heads;
  require(query.B == key.B && key.B == value.B && key.T == value.T && query.C == key.C &&
              key.C == value.C && H >= 1 && query.C % H == 0 && query.C > 0 &&
              (q.rank() == 3 ||
               (inputs[places.k.input].dim(1) == H && inputs[places.v.input].dim(1) == H)),
          "{}: shapes {} with {} heads", op, shapes(inputs), H);
  const std::int64_t S = options.keys < 0 ? key.T : options.keys;
  require(S <= key.T, "{}: {} keys with shapes {}", op, S, shapes(inputs));
  require(options.window >= 0, "{}: a window of {}", op, options.window);
  if (!options.key_padding.empty())
    require(options.key_padding.dtype() == DType::int32 &&
                options.key_padding.shape() == Shape{query.B, S},
            "{}: key padding {} {} for (B, S) = ({}, {})", op,
            to_string(options.key_padding.dtype()), to_string(options.key_padding.shape()), query.B,
            S);
  const Shape scores{query.B, H, query.T, S};
  if (!options.mask.empty())
    require(
        options.mask.dtype() == q.dtype() && broadcast(op, options.mask.shape(), scores) == scores,
        "{}: mask {} {} for scores {}", op, to_string(options.mask.dtype()),
        to_string(options.mask.shape()), to_string(scores));
  const std::int64_t D = query.C / H;
  return {.dtype = q.dtype(),
          .B = query.B,
          .H = H,
          .T = query.T,
          .S = S,
          .D = D,
          .scale = 1 / std::sqrt(D),
          .causal = options.causal,
          .window = options.window,
          .key_padding = options.key_padding,
          .mask = options.mask};
}

Tensor attend(const char* op, const std::vector<Tensor>& inputs, const Places& places,
              const AttentionOptions& options) {
  const AttentionShape shape = check(op, inputs, places, options);
  const std::int64_t D = shape.D;
  std::vector<Array> values;
  for (const Tensor& input : inputs) values.push_back(input.value());
  Array y(inputs[0].rank() == 4 ? inputs[0].shape() : Shape{shape.B, shape.T, shape.H * D},
          shape.dtype);
  Array highs({shape.B, shape.H, shape.T}, shape.dtype), weights(highs.shape(), shape.dtype);
  const auto views = [D, places](const std::vector<Array>& operands, const Array& result) {
    return AttentionViews{.q = view(operands, places.q, D),
                          .k = view(operands, places.k, D),
                          .v = view(operands, places.v, D),
                          .y = view(result, D)};
  };
  attention_forward(shape, views(values, y), highs, weights);
  return record(op, y, inputs,
                [shape, views, values, y, highs, weights,
                 leaves_out = shape.S < inputs[places.k.input].dim(-2)](const Array& gradient,
                                                                        InputGradients& into) {
                  std::vector<Array> sent;
                  for (const Array& value : values)
                    sent.push_back(leaves_out ? Array::zeros(value.shape(), value.dtype())
                                              : Array(value.shape(), value.dtype()));
                  const AttentionViews d = views(sent, gradient);
                  attention_backward(shape, views(values, y), highs, weights,
                                     {.dy = d.y, .dq = d.q, .dk = d.k, .dv = d.v});
                  for (std::size_t i = 0; i < sent.size(); ++i) into.add(i, sent[i]);
                });
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return attend("scaled_dot_product_attention", {q, k, v}, separate, options);
}

Tensor packed_self_attention(const Tensor& qkv, const AttentionOptions& options) {
  return attend("packed_self_attention", {qkv}, {.q = {0, 0, 3}, .k = {0, 1, 3}, .v = {0, 2, 3}},
                options);
}

Tensor packed_cross_attention(const Tensor& q, const Tensor& kv, const AttentionOptions& options) {
  return attend("packed_cross_attention", {q, kv}, {.q = {0}, .k = {1, 0, 2}, .v = {1, 1, 2}},
                options);
}

Array attention_weights(const Array& q, const Array& k, const AttentionOptions& options) {
  const NoTape no_tape;
  const std::int64_t S = options.keys < 0 ? k.dim(1) : options.keys;
  const Tensor keys = slice(k, 1, 0, S);
  const AttentionShape shape = check("attention_weights", {q, keys, keys}, separate, options);
  const auto heads = [&](const Tensor& x) {
    return permute(reshape(x, {shape.B, x.dim(1), shape.H, shape.D}), {0, 2, 1, 3});
  };
  Tensor scores = matmul(heads(q), heads(keys), {.transpose_b = true}) * shape.scale;
  if (!shape.mask.empty()) scores = scores + shape.mask;
  Array hidden = Array::zeros({shape.B, 1, shape.T, S}, DType::float64);
  const auto values = hidden.mutable_values<double>();
  for (std::int64_t b = 0, i = 0; b < shape.B; ++b)
    for (std::int64_t t = 0; t < shape.T; ++t)
      for (std::int64_t s = 0; s < S; ++s, ++i) {
        const bool padded =
            !shape.key_padding.empty() && shape.key_padding.values<std::int32_t>()[b * S + s];
        const std::int64_t place = t + S - shape.T;  // of the query among the keys
        const bool later = shape.causal && s > place;
        const bool far = shape.window > 0 && std::abs(place - s) >= shape.window;
        if (padded || later || far) values[i] = -std::numeric_limits<double>::infinity();
      }
  return softmax(scores + hidden.to(shape.dtype)).value();
}

}  // namespace tapestry
