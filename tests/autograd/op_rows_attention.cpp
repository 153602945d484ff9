#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "tests/support/op_table.hpp"

// Rows of the table of ops: attention and recurrent ops.
namespace tapestry {
namespace {

// An additive mask (rows, columns) that hides the keys for which hide(row, column) holds.
Array mask_where(std::int64_t rows, std::int64_t columns,
                 bool (*hide)(std::int64_t, std::int64_t)) {
  Array mask = normal({rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    if (hide(i / columns, i % columns)) mask.mutable_values<double>()[i] = -infinity;
  return mask;
}

Tensor attention(In x, const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(x[0], x[1], x[2], options);
}

std::vector<Array> attention_inputs(std::int64_t T, std::int64_t S, std::int64_t C) {
  return {normal({2, T, C}), normal({2, S, C}), normal({2, S, C})};
}

// 4 heads of queries share 2 heads of keys and values.
std::vector<Array> grouped_inputs(std::int64_t T, std::int64_t S, std::int64_t D) {
  return {normal({2, T, 4 * D}), normal({2, S, 2 * D}), normal({2, S, 2 * D})};
}

std::vector<Array> heads_inputs(std::int64_t T, std::int64_t S, std::int64_t D) {
  return {normal({1, 2, T, D}), normal({1, 2, S, D}), normal({1, 2, S, D})};
}

// Gates are in (0, 1), so that long recurrences neither grow nor vanish.
Array gates(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = 1 / (1 + std::exp(-x));
  return array;
}

// Sums with both signs could be close to 0, where the quotient is too steep for differences.
Array features(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x) + 0.1;
  return array;
}

}  // namespace

std::vector<OpRow> softmax_ops() {
  const Array x = normal({3, 7}), wide = normal({2, 37}), one = normal({3, 1});
  const Array far = Array::of(std::vector{1e4, -1e4, 0., -1e4, -1e4, -1e4, 1e4, 1e4, 1e4}, {3, 3});
  const Array near =
      Array::of(std::vector{1e4, 1e4 + 1, 1e4 - 1, -1e4, -1e4 + 1, -1e4 - 1}, {2, 3});
  std::vector<OpRow> rows;
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> ops = {
      {"softmax", softmax}, {"log_softmax", log_softmax}};
  for (const auto& [name, op] : ops) {
    const Function f = [op = op](In v) { return op(v[0]); };
    rows.push_back({name, f, {x}});
    rows.push_back({fmt::format("{}: wider than a register", name), f, {wide}});
    rows.push_back({fmt::format("{}: vector", name), f, {normal({5})}});
    rows.push_back({fmt::format("{}: rank 3", name), f, {normal({2, 3, 4})}});
    rows.push_back({fmt::format("{}: one class", name), f, {one}});
    rows.push_back({fmt::format("{}: no rows", name), f, {normal({0, 3})}});
    rows.push_back({fmt::format("{}: empty rows", name), f, {normal({3, 0})}});
    rows.push_back({fmt::format("{}: ±1e4", name), f, {far}, large});
    rows.push_back({fmt::format("{}: around ±1e4", name), f, {near}, large});
  }
  return rows;
}

std::vector<OpRow> attention_ops() {
  using Inputs = std::vector<Array>;
  const auto attend = [](const char* variant, const AttentionOptions& options, const Inputs& of) {
    return OpRow{fmt::format("scaled_dot_product_attention: {}", variant),
                 [options](In x) { return attention(x, options); }, of};
  };
  const auto self = [](const char* variant, const AttentionOptions& options, const Inputs& of) {
    return OpRow{fmt::format("packed_self_attention: {}", variant),
                 [options](In x) { return packed_self_attention(x[0], options); }, of};
  };
  const auto cross = [](const char* variant, const AttentionOptions& options, const Inputs& of) {
    return OpRow{fmt::format("packed_cross_attention: {}", variant),
                 [options](In x) { return packed_cross_attention(x[0], x[1], options); }, of};
  };
  const Array padding = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 0}, {2, 5});
  const Array nobody = ints({1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {2, 5});
  const Array additive = normal({3, 5});
  const Array hidden = mask_where(3, 5, [](auto t, auto s) { return (t + s) % 3 == 0; });
  const Array whole_row = mask_where(3, 5, [](auto t, auto) { return t == 1; });
  const Array far_keys = mask_where(70, 130, [](auto, auto s) { return s < 64 || s > 100; });
  return {
      attend("rank 3", {}, attention_inputs(3, 5, 4)),
      attend("rank 4", {}, heads_inputs(3, 5, 4)),
      attend("2 heads", {.heads = 2}, attention_inputs(3, 5, 4)),
      attend("4 heads", {.heads = 4}, attention_inputs(3, 5, 4)),
      attend("D 1", {}, attention_inputs(3, 5, 1)),
      attend("D 20", {}, attention_inputs(3, 5, 20)),
      attend("T 1", {}, attention_inputs(1, 5, 3)),
      attend("T 1, shared heads, padded",
             {.heads = 4,
              .key_value_heads = 2,
              .key_padding = ints({0, 1, 0, 0, 1, 1, 1, 1, 1, 1}, {2, 5})},
             grouped_inputs(1, 5, 3)),
      attend("T 1, window, causal", {.causal = true, .window = 70}, heads_inputs(1, 150, 3)),
      attend("T 1, no keys", {}, attention_inputs(1, 0, 3)),
      attend("S 1", {}, attention_inputs(3, 1, 3)),
      attend("no queries", {}, attention_inputs(0, 5, 3)),
      attend("no keys", {}, attention_inputs(3, 0, 3)),
      attend("causal", {.causal = true}, attention_inputs(5, 5, 3)),
      attend("causal, T < S", {.causal = true}, heads_inputs(3, 5, 3)),
      attend("causal, T > S", {.causal = true}, heads_inputs(5, 3, 3)),
      attend("padding", {.heads = 2, .key_padding = padding}, attention_inputs(3, 5, 4)),
      attend("padding hides all", {.key_padding = nobody}, attention_inputs(3, 5, 4)),
      attend("causal and padding", {.causal = true, .key_padding = padding},
             attention_inputs(5, 5, 3)),
      attend("mask", {.mask = additive}, attention_inputs(3, 5, 4)),
      attend("mask with -inf", {.mask = hidden}, heads_inputs(3, 5, 4)),
      attend("mask hides a row", {.mask = whole_row}, attention_inputs(3, 5, 4)),
      attend("mask a head", {.heads = 2, .mask = normal({2, 3, 5}, 1)}, attention_inputs(3, 5, 4)),
      attend("mask of all axes", {.heads = 2, .mask = normal({2, 2, 3, 5}, 2)},
             attention_inputs(3, 5, 4)),
      attend("mask a batch", {.mask = normal({2, 1, 1, 5}, 3)}, attention_inputs(3, 5, 4)),
      attend("mask a query", {.mask = normal({3, 1}, 4)}, attention_inputs(3, 5, 4)),
      attend("mask a key", {.mask = normal({5}, 5)}, attention_inputs(3, 5, 4)),
      attend("keys", {.keys = 3}, attention_inputs(3, 5, 4)),
      attend("keys, causal", {.causal = true, .keys = 4}, heads_inputs(2, 6, 4)),
      attend("no keys of 5", {.keys = 0}, attention_inputs(3, 5, 4)),
      attend("tiles", {}, heads_inputs(70, 130, 3)),
      attend("tiles, causal", {.causal = true}, heads_inputs(130, 130, 3)),
      attend("tiles, causal, T < S", {.causal = true}, heads_inputs(66, 140, 3)),
      attend("tiles, causal, T > S", {.causal = true}, heads_inputs(140, 66, 3)),
      attend("tiles, first tile hidden", {.mask = far_keys}, heads_inputs(70, 130, 3)),
      attend("whole tiles", {}, heads_inputs(128, 64, 3)),
      attend("window", {.window = 2}, attention_inputs(5, 5, 3)),
      attend("window of one, causal", {.causal = true, .window = 1}, attention_inputs(5, 5, 3)),
      attend("window, T < S", {.window = 2}, heads_inputs(3, 6, 3)),
      attend("window and causal, T > S, padded",
             {.causal = true, .window = 3, .key_padding = ints({0, 1, 0, 0, 1, 0}, {2, 3})},
             attention_inputs(5, 3, 3)),
      attend("tiles, window", {.window = 20}, heads_inputs(130, 200, 3)),
      attend("tiles, window, causal", {.causal = true, .window = 70}, heads_inputs(200, 200, 3)),
      attend("heads of whole registers, window, T < S", {.causal = true, .window = 2},
             heads_inputs(3, 70, 16)),
      attend("documents",
             {.heads = 2,
              .causal = true,
              .document_starts = ints({0, 0, 2, 2, 4, 0, 1, 1, 1, 1}, {2, 5})},
             attention_inputs(5, 5, 4)),
      attend("documents, window, shared heads, masked, padded",
             {.heads = 4,
              .key_value_heads = 2,
              .causal = true,
              .window = 2,
              .key_padding = ints({0, 0, 1, 0, 0, 0, 0, 0}, {2, 4}),
              .mask = normal({4, 4, 4}, 6),
              .document_starts = ints({0, 0, 0, 3, 0, 1, 1, 1}, {2, 4})},
             grouped_inputs(4, 4, 2)),
      attend("documents, tiles",
             {.causal = true, .document_starts = starts_of({{10, 53, 2, 40, 65}})},
             heads_inputs(170, 170, 3)),
      attend("documents, tiles, window, shared heads, chunks of keys",
             {.heads = 4,
              .key_value_heads = 2,
              .causal = true,
              .window = 30,
              .document_starts = starts_of({{64, 30, 166}, {1, 1, 255, 3}})},
             grouped_inputs(260, 260, 2)),
      {"scaled_dot_product_attention: x thrice",
       [](In x) { return scaled_dot_product_attention(x[0], x[0], x[0]); },
       {normal({1, 3, 4})}},
      attend("shared heads", {.heads = 4, .key_value_heads = 2}, grouped_inputs(3, 5, 3)),
      attend("one shared head, rank 4", {},
             {normal({2, 3, 4, 2}), normal({2, 1, 5, 2}), normal({2, 1, 5, 2})}),
      attend("shared heads, keys, causal, padded, masked",
             {.heads = 4,
              .key_value_heads = 2,
              .causal = true,
              .key_padding = ints({0, 1, 0, 0, 1, 0, 0, 0}, {2, 4}),
              .mask = normal({4, 3, 4}, 7),
              .keys = 4},
             grouped_inputs(3, 5, 2)),
      attend("shared heads, tiles, window",
             {.heads = 4, .key_value_heads = 2, .causal = true, .window = 70},
             grouped_inputs(130, 140, 2)),
      attend("shared heads of whole registers",
             {.heads = 4, .key_value_heads = 2, .causal = true, .window = 2},
             grouped_inputs(3, 70, 16)),
      attend("shared heads, chunks of keys", {.heads = 4, .key_value_heads = 2},
             grouped_inputs(5, 300, 2)),
      self("shared heads", {.heads = 4, .key_value_heads = 2, .causal = true},
           {normal({2, 3, 24})}),
      self("shared heads, tiles", {.heads = 3, .key_value_heads = 1, .causal = true},
           {normal({1, 70, 10})}),
      cross("shared heads", {.heads = 4, .key_value_heads = 2, .key_padding = padding},
            {normal({2, 3, 12}), normal({2, 5, 12})}),
      self("plain", {}, {normal({2, 3, 12})}),
      self("heads, causal", {.heads = 2, .causal = true}, {normal({2, 3, 12})}),
      self("tiles", {.heads = 2, .causal = true}, {normal({1, 70, 18})}),
      self("keys", {.keys = 2}, {normal({2, 3, 12})}),
      self("window", {.causal = true, .window = 2}, {normal({2, 4, 12})}),
      cross("plain", {}, {normal({2, 3, 4}), normal({2, 5, 8})}),
      cross("heads, padding", {.heads = 2, .key_padding = padding},
            {normal({2, 3, 4}), normal({2, 5, 8})}),
      cross("keys", {.keys = 4}, {normal({2, 3, 4}), normal({2, 5, 8})}),
      cross("tiles", {}, {normal({1, 66, 3}), normal({1, 130, 6})}),
  };
}

std::vector<OpRow> rotary_ops() {
  const auto with = [](const RotaryOptions& options) {
    return [options](In x) { return rotary(x[0], options); };
  };
  return {
      {"rotary", with({}), {normal({3, 6})}},
      {"rotary: heads of queries and keys, beside values",
       with({.head_width = 4, .columns = 16, .firsts = {3}}),
       {normal({2, 5, 24})}},
      {"rotary: each example from its own position",
       with({.head_width = 2, .firsts = {7, 0}}),
       {normal({2, 3, 4})}},
      {"rotary: each token at its own position",
       with({.head_width = 2, .positions = ints({0, 1, 0, 2, 2, 1}, {2, 3})}),
       {normal({2, 3, 4})}},
      {"rotary: rank 4", with({.firsts = {100}}), {normal({2, 2, 3, 2})}},
      {"rotary: no columns", with({.head_width = 2, .columns = 0}), {normal({3, 6})}},
      {"rotary: no rows", with({}), {normal({2, 0, 4})}},
      {"rotary: no rows, each at its own position",
       with({.positions = ints({}, {2, 0})}),
       {normal({2, 0, 4})}},
      {"rotary: halves", with({.form = {.pairs = RotaryPairs::halves}}), {normal({3, 6})}},
      {"rotary: halves of heads, wider than a register, with a base and scaled",
       with({.head_width = 34,
             .columns = 68,
             .firsts = {3},
             .form = {.pairs = RotaryPairs::halves,
                      .base = 50,
                      .scaling = RotaryScaling{.original_context = 16}}}),
       {normal({2, 5, 70})}},
      {"rotary: wider than a register", with({.head_width = 34}), {normal({7, 68})}},
  };
}

std::vector<OpRow> scan_ops() {
  const Function linear_scan = [](In x) { return linear_recurrence(x[0], x[1]); };
  const Function tanh_scan = [](In x) { return tanh_recurrence(x[0], x[1]); };
  const Function tanh_after = [](In x) { return tanh_recurrence(x[0], x[1], x[2]); };
  const Array x = normal({2, 5, 3}), weight = normal({3, 3});
  return {
      {"linear_recurrence", linear_scan, {gates({2, 5, 3}), x}},
      {"linear_recurrence: any gates", linear_scan, {normal({2, 5, 3}), x}},
      {"linear_recurrence: one gate", linear_scan, {gates({}), x}},
      {"linear_recurrence: a gate a column", linear_scan, {gates({3}), x}},
      {"linear_recurrence: a gate a step", linear_scan, {gates({5, 1}), x}},
      {"linear_recurrence: T 1", linear_scan, {gates({2, 1, 3}), normal({2, 1, 3})}},
      {"linear_recurrence: one column", linear_scan, {gates({2, 7, 1}), normal({2, 7, 1})}},
      {"linear_recurrence: wide", linear_scan, {gates({2, 4, 131}), normal({2, 4, 131})}},
      {"linear_recurrence: no steps", linear_scan, {gates({2, 0, 3}), normal({2, 0, 3})}},
      {"linear_recurrence: no examples", linear_scan, {gates({0, 5, 3}), normal({0, 5, 3})}},
      {"linear_recurrence: x as its own gate",
       [](In v) { return linear_recurrence(v[0], v[0]); },
       {gates({2, 4, 3})}},
      {"linear_recurrence: used twice",
       [](In v) {
         const Tensor h = linear_recurrence(v[0], v[1]);
         return h * linear_recurrence(v[0], h);
       },
       {gates({2, 4, 3}), normal({2, 4, 3})}},
      {"tanh_recurrence", tanh_scan, {x, weight}},
      {"tanh_recurrence: initial", tanh_after, {x, weight, normal({2, 3})}},
      {"tanh_recurrence: T 1", tanh_after, {normal({2, 1, 3}), weight, normal({2, 3})}},
      {"tanh_recurrence: one column", tanh_scan, {normal({2, 7, 1}), normal({1, 1})}},
      {"tanh_recurrence: one example",
       tanh_after,
       {normal({1, 6, 4}), normal({4, 4}), normal({1, 4})}},
      {"tanh_recurrence: no examples", tanh_after, {normal({0, 5, 3}), weight, normal({0, 3})}},
      {"tanh_recurrence: no steps", tanh_scan, {normal({2, 0, 3}), weight}},
      {"tanh_recurrence: in two parts",
       [](In v) {
         const Tensor first = tanh_recurrence(slice(v[0], 1, 0, 2), v[1], v[2]);
         const Tensor state = reshape(slice(first, 1, 1, 2), {2, 3});
         return concat({first, tanh_recurrence(slice(v[0], 1, 2, 5), v[1], state)}, 1);
       },
       {x, weight, normal({2, 3})}},
  };
}

std::vector<OpRow> gated_ops() {
  const Function lstm_from_zeros = [](In v) { return lstm(v[0], v[1]); },
                 lstm_after = [](In v) { return lstm(v[0], v[1], v[2]); },
                 gru_plain = [](In v) { return gru(v[0], v[1]); },
                 gru_biased = [](In v) { return gru(v[0], v[1], v[2]); },
                 gru_after = [](In v) { return gru(v[0], v[1], {}, v[2]); },
                 gru_full = [](In v) { return gru(v[0], v[1], v[2], v[3]); };
  const auto x = [](std::int64_t B, std::int64_t T, std::int64_t columns) {
    return normal({B, T, columns});
  };
  const Array four = normal({12, 3}), three = normal({9, 3});
  return {
      {"lstm", lstm_from_zeros, {x(2, 5, 12), four}},
      {"lstm: initial", lstm_after, {x(2, 5, 12), four, normal({2, 6})}},
      {"lstm: T 1", lstm_after, {x(2, 1, 12), four, normal({2, 6})}},
      {"lstm: one column", lstm_after, {x(2, 6, 4), normal({4, 1}), normal({2, 2})}},
      {"lstm: many examples", lstm_after, {x(18, 3, 12), four, normal({18, 6})}},
      {"lstm: no examples", lstm_after, {x(0, 5, 12), four, normal({0, 6})}},
      {"lstm: no steps", lstm_from_zeros, {x(2, 0, 12), four}},
      {"lstm: used twice",
       [](In v) {
         const Tensor h = lstm(v[0], v[1], v[2]);
         return h * lstm(v[0] + concat({h, h, h, h}, 2), v[1]);
       },
       {x(2, 4, 12), four, normal({2, 6})}},
      {"gru", gru_plain, {x(2, 5, 9), three}},
      {"gru: bias", gru_biased, {x(2, 5, 9), three, normal({3})}},
      {"gru: initial", gru_after, {x(2, 5, 9), three, normal({2, 3})}},
      {"gru: bias and initial", gru_full, {x(2, 5, 9), three, normal({3}), normal({2, 3})}},
      {"gru: T 1", gru_full, {x(2, 1, 9), three, normal({3}), normal({2, 3})}},
      {"gru: one column", gru_plain, {x(2, 6, 3), normal({3, 1})}},
      {"gru: many examples", gru_full, {x(18, 3, 9), three, normal({3}), normal({18, 3})}},
      {"gru: no examples", gru_full, {x(0, 5, 9), three, normal({3}), normal({0, 3})}},
      {"gru: no steps", gru_biased, {x(2, 0, 9), three, normal({3})}},
      {"gru: in two parts",
       [](In v) {
         const Tensor first = gru(slice(v[0], 1, 0, 2), v[1], v[2], v[3]);
         const Tensor state = reshape(slice(first, 1, 1, 2), {2, 3});
         return concat({first, gru(slice(v[0], 1, 2, 5), v[1], v[2], state)}, 1);
       },
       {x(2, 5, 9), three, normal({3}), normal({2, 3})}},
  };
}

std::vector<OpRow> linear_attention_ops() {
  using Options = LinearAttentionOptions;
  const auto with = [](const Options& options) {
    return [options](In x) { return linear_attention(x[0], x[1], x[2], {}, options); };
  };
  const auto gated = [](const Options& options) {
    return [options](In x) { return linear_attention(x[0], x[1], x[2], x[3], options); };
  };
  const auto inputs = [](std::int64_t T, std::int64_t S) {
    return std::vector<Array>{features({2, 2, 3, T}), features({2, 2, 3, S}), normal({2, S, 4})};
  };
  const auto gated_inputs = [](std::int64_t T) {
    return std::vector<Array>{features({2, 2, 3, T}), features({2, 2, 3, T}), normal({2, T, 4}),
                              normal({2, T, 2})};
  };
  const Array padding = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 0}, {2, 5});
  const Array nobody = ints({1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {2, 5});
  const Array scales = normal({2, 2, 5});
  return {
      {"linear_attention", with({}), inputs(3, 5)},
      {"linear_attention: padding", with({.key_padding = padding}), inputs(3, 5)},
      {"linear_attention: padding hides all", with({.key_padding = nobody}), inputs(3, 5)},
      {"linear_attention: scaled keys", with({.key_log_scales = scales}), inputs(3, 5)},
      {"linear_attention: floored", with({.key_padding = padding, .floor = 1e3}), inputs(3, 5)},
      {"linear_attention: no queries", with({}), inputs(0, 5)},
      {"linear_attention: no keys", with({}), inputs(3, 0)},
      {"linear_attention: chunks", with({}), inputs(70, 130)},
      {"linear_attention: causal", with({.causal = true}), inputs(5, 5)},
      {"linear_attention: causal, one step", with({.causal = true}), inputs(1, 1)},
      {"linear_attention: causal, no step", with({.causal = true}), inputs(0, 0)},
      {"linear_attention: causal, padding", with({.causal = true, .key_padding = padding}),
       inputs(5, 5)},
      {"linear_attention: causal, first keys hidden", with({.causal = true, .key_padding = nobody}),
       inputs(5, 5)},
      {"linear_attention: causal, scaled keys", with({.causal = true, .key_log_scales = scales}),
       inputs(5, 5)},
      {"linear_attention: causal, floored", with({.causal = true, .floor = 1e3}), inputs(5, 5)},
      {"linear_attention: causal, chunks", with({.causal = true}), inputs(150, 150)},
      {"linear_attention: causal, whole chunks", with({.causal = true}), inputs(128, 128)},
      {"linear_attention: gate", gated({.causal = true}), gated_inputs(5)},
      {"linear_attention: gate, padding", gated({.causal = true, .key_padding = padding}),
       gated_inputs(5)},
      {"linear_attention: gate, scaled keys", gated({.causal = true, .key_log_scales = scales}),
       gated_inputs(5)},
      {"linear_attention: gate, floored",
       gated({.causal = true, .key_padding = padding, .floor = 1e3}), gated_inputs(5)},
      {"linear_attention: gate, chunks", gated({.causal = true}), gated_inputs(150)},
      {"linear_attention: gate, chunks, floored", gated({.causal = true, .floor = 1e3}),
       gated_inputs(150)},
      {"linear_attention: one tensor as queries and keys",
       [](In x) { return linear_attention(x[0], x[0], x[1], {}, {.causal = true}); },
       {features({1, 1, 3, 5}), normal({1, 5, 2})}},
      {"sine_features", [](In x) { return sine_features(x[0]); }, {normal({2, 3, 5})}},
      {"sine_features: wider than a register",
       [](In x) { return sine_features(x[0]); },
       {normal({3, 37})}},
      {"sine_features: no steps", [](In x) { return sine_features(x[0]); }, {normal({3, 0})}},
      {"unit_rows", [](In x) { return unit_rows(x[0]); }, {normal({2, 3, 5})}},
      {"unit_rows: wider than a register", [](In x) { return unit_rows(x[0]); }, {normal({2, 37})}},
      {"unit_rows: no rows", [](In x) { return unit_rows(x[0]); }, {normal({0, 3})}},
  };
}

}  // namespace tapestry
