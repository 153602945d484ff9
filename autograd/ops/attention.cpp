#include "autograd/ops/attention.hpp"

#include <cmath>
#include <limits>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/attention.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"

namespace tapestry {
namespace {

// The position of an operand: heads [first, first + heads) of the `all` heads of an input.
struct Place {
  std::size_t input;
  std::int64_t first, heads, all;
};

struct Places {
  Place q, k, v;
};

// Returns a view of an array (B, heads, T, D) or (B, T, heads · D), from head `first` on.
HeadsView view(const Array& array, std::int64_t D, std::int64_t first = 0) {
  if (array.rank() == 4)
    return {.data = writable(array),
            .batch = array.dim(1) * array.dim(2) * D,
            .head = array.dim(2) * D,
            .time = D};
  const std::int64_t row = array.dim(2);
  return {.data = writable(array) + first * D * size_of(array.dtype()),
          .batch = array.dim(1) * row,
          .head = D,
          .time = row};
}

HeadsView view(const std::vector<Array>& arrays, const Place& place, std::int64_t D) {
  return view(arrays[place.input], D, place.first);
}

std::string shapes(const std::vector<Tensor>& inputs) {
  std::string text;
  for (const Tensor& input : inputs) text += (text.empty() ? "" : ", ") + to_string(input.shape());
  return text;
}

// Returns the number of key and value heads of inputs (B, T, heads · D).
std::int64_t key_heads_of(const AttentionOptions& options) {
  return options.key_value_heads > 0 ? options.key_value_heads : options.heads;
}

// Returns the places of queries, keys and values in three inputs.
Places separate(const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options) {
  const auto whole = [](std::size_t input, const Tensor& x, std::int64_t heads) {
    const std::int64_t own = x.rank() == 4 ? x.dim(1) : heads;
    return Place{input, 0, own, own};
  };
  return {.q = whole(0, q, options.heads),
          .k = whole(1, k, key_heads_of(options)),
          .v = whole(2, v, key_heads_of(options))};
}

// Throws std::invalid_argument unless document_starts fits queries (B, T) and S keys: each start is
// at most the token's own position, and not less than the start of the token before.
void check_documents(const char* op, const AttentionOptions& options, const Shape& queries,
                     std::int64_t S) {
  const Array& starts = options.document_starts;
  if (starts.empty()) return;
  const std::int64_t T = queries[1];
  require(starts.dtype() == DType::int32 && starts.shape() == queries && options.causal && S == T,
          "{}: document_starts {} with queries {}, {} keys and causal = {}; expected int32 of the "
          "queries' shape, as many keys as queries, and causal = true",
          op, starts, queries, S, options.causal);
  if (is_dry_run()) return;
  const auto values = starts.values<std::int32_t>();
  for (std::int64_t i = 0; i < starts.size(); ++i) {
    const std::int64_t t = i % T, before = t == 0 ? 0 : values[i - 1];
    require(values[i] >= before && values[i] <= t,
            "{}: the document of token {} starts at {}; expected {} to {}", op, t, values[i],
            before, t);
  }
}

// Checks the options for queries of a type, and scores (B, H, T, S).
void check_options(const char* op, const AttentionOptions& options, DType dtype,
                   const Shape& scores) {
  const std::int64_t B = scores[0], T = scores[2], S = scores[3];
  require_value(options.window >= 0, op, "window", options.window, "0 or more");
  if (!options.key_padding.empty())
    require_array(op, "key_padding", options.key_padding, DType::int32, {B, S});
  check_documents(op, options, {B, T}, S);
  if (!options.key_counts.empty()) {
    require_array(op, "key_counts", options.key_counts, DType::int32, {B});
    require(options.key_padding.empty() && options.mask.empty(),
            "{}: key_counts cannot be combined with key_padding or mask; leave these empty", op);
    for (const std::int32_t count : options.key_counts.values<std::int32_t>())
      require(is_dry_run() || (count >= 0 && count <= S), "{}: key_counts has {}; expected 0 to {}",
              op, count, S);
  }
  if (!options.mask.empty())
    require(options.mask.dtype() == dtype && broadcast(op, options.mask.shape(), scores) == scores,
            "{}: mask is {}; expected {} that broadcasts to {}", op, options.mask, dtype, scores);
}

AttentionShape check(const char* op, const std::vector<Tensor>& inputs, const Places& places,
                     const AttentionOptions& options) {
  for (const Tensor& input : inputs) {
    check_same_dtype(op, inputs[0], input);
    require(input.rank() == inputs[0].rank() && (input.rank() == 3 || input.rank() == 4),
            "{}: shapes {}; expected 3 axes each, or 4", op, shapes(inputs));
  }
  const Tensor& q = inputs[places.q.input];
  const Tensor& k = inputs[places.k.input];
  const std::int64_t H = places.q.heads, shared = places.k.heads, B = q.dim(0), T = q.dim(-2);
  const auto width_of = [&](const Place& place) {  // -1 if the heads do not divide the columns
    const std::int64_t columns = inputs[place.input].dim(-1);
    if (q.rank() == 4) return columns;
    return place.all >= 1 && columns % place.all == 0 ? columns / place.all : -1;
  };
  const std::int64_t D = width_of(places.q);
  bool fits = H >= 1 && shared >= 1 && H % shared == 0 && D > 0;
  for (const Place& place : {places.q, places.k, places.v})
    fits &= q.rank() == 3 || place.heads == place.all;
  for (const Place& place : {places.k, places.v}) {
    const Tensor& input = inputs[place.input];
    fits &= place.heads == shared && width_of(place) == D && input.dim(0) == B &&
            input.dim(-2) == k.dim(-2);
  }
  require(
      fits,
      "{}: shapes {} do not fit {} heads of queries and {} of keys and values; expected equal "
      "batches and head widths, as many values as keys, and key heads that divide the query heads",
      op, shapes(inputs), H, shared);
  const std::int64_t S = options.keys < 0 ? k.dim(-2) : options.keys;
  require(S <= k.dim(-2), "{}: keys = {} with shapes {}; expected at most {}", op, S,
          shapes(inputs), k.dim(-2));
  check_options(op, options, q.dtype(), {B, H, T, S});
  return {.dtype = q.dtype(),
          .B = B,
          .H = H,
          .T = T,
          .S = S,
          .D = D,
          .scale = 1 / std::sqrt(D),
          .group = H / shared,
          .causal = options.causal,
          .window = options.window,
          .key_padding = options.key_padding,
          .mask = options.mask,
          .document_starts = options.document_starts,
          .key_counts = options.key_counts};
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
  if (!shape.key_counts.empty()) return y;
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
  return attend("scaled_dot_product_attention", {q, k, v}, separate(q, k, v, options), options);
}

Tensor packed_self_attention(const Tensor& qkv, const AttentionOptions& options) {
  const std::int64_t H = options.heads, shared = key_heads_of(options), all = H + 2 * shared;
  return attend("packed_self_attention", {qkv},
                {.q = {0, 0, H, all}, .k = {0, H, shared, all}, .v = {0, H + shared, shared, all}},
                options);
}

Tensor packed_cross_attention(const Tensor& q, const Tensor& kv, const AttentionOptions& options) {
  const std::int64_t H = options.heads, shared = key_heads_of(options), all = 2 * shared;
  return attend("packed_cross_attention", {q, kv},
                {.q = {0, 0, H, H}, .k = {1, 0, shared, all}, .v = {1, shared, shared, all}},
                options);
}

Array attention_weights(const Array& q, const Array& k, const AttentionOptions& options) {
  const NoTape no_tape;
  const std::int64_t S = options.keys < 0 ? k.dim(1) : options.keys;
  const Tensor keys = slice(k, 1, 0, S);
  const AttentionShape shape =
      check("attention_weights", {q, keys, keys}, separate(q, keys, keys, options), options);
  const std::int64_t shared = shape.H / shape.group;
  const auto heads = [&](const Tensor& x, std::int64_t group) {
    return permute(reshape(x, {shape.B, x.dim(1), shared, group, shape.D}), {0, 2, 3, 1, 4});
  };
  const Tensor products = matmul(heads(q, shape.group), heads(keys, 1), {.transpose_b = true});
  Tensor scores = reshape(products, {shape.B, shape.H, shape.T, S}) * shape.scale;
  if (!shape.mask.empty()) scores = scores + shape.mask;
  Array hidden = Array::zeros({shape.B, 1, shape.T, S}, DType::float64);
  const auto values = hidden.mutable_values<double>();
  for (std::int64_t b = 0, i = 0; b < shape.B; ++b)
    for (std::int64_t t = 0; t < shape.T; ++t)
      for (std::int64_t s = 0; s < S; ++s, ++i) {
        const bool padded =
            !shape.key_padding.empty() && shape.key_padding.values<std::int32_t>()[b * S + s];
        const std::int64_t place = t + S - shape.T;  // position of the query among the keys
        const bool later = shape.causal && s > place;
        const bool far = shape.window > 0 && std::abs(place - s) >= shape.window;
        const bool other = !shape.document_starts.empty() &&
                           s < shape.document_starts.values<std::int32_t>()[b * shape.T + t];
        if (padded || later || far || other) values[i] = -std::numeric_limits<double>::infinity();
      }
  return softmax(scores + hidden.to(shape.dtype)).value();
}

}  // namespace tapestry
