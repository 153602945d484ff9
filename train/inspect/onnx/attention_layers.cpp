#include <cmath>
#include <limits>

#include "autograd/check.hpp"
#include "autograd/ops/rotary.hpp"
#include "layers/random_features.hpp"
#include "train/inspect/onnx/layers.hpp"

namespace tapestry::onnx {
namespace {

Value lowest(const Value& x) {
  return x.graph->constant(static_cast<double>(std::numeric_limits<float>::lowest()));
}

// Returns the rows of a position table for the positions of the sequence.
Value rows_of(const Value& table, const Sequence& sequence) {
  return sequence.length ? first_rows(table, *sequence.length) : table;
}

Value length_of(const Value& x, const Sequence& sequence) {
  return sequence.length ? *sequence.length : x.graph->integers({sequence.longest});
}

// Returns the padding (B, S) as a mask of keys (B, 1, 1, S).
Value of_keys(const Value& padding) { return unsqueeze(padding, {1, 2}); }

// Returns the mask of a causal sequence, of a window and of padding; nothing if all keys are
// visible.
std::optional<Hidden> hidden_keys(const Value& x, const Sequence& sequence, std::int64_t window) {
  std::optional<Value> keys;
  const auto hide = [&](const Value& more) { keys = keys ? either(*keys, more) : more; };
  if (sequence.causal || window > 0) {
    const Value position = counted_to(length_of(x, sequence));
    Graph& graph = *x.graph;
    const Value age = unsqueeze(position, {1}) - unsqueeze(position, {0});  // (T, T)
    if (sequence.causal) hide(below(age, graph.constant(std::int64_t{0})));
    if (window > 0) {
      const Value steps = sequence.causal ? age : graph.node("Abs", {age});
      hide(below(graph.constant(window - 1), steps));
    }
  }
  if (sequence.padding) hide(of_keys(*sequence.padding));
  if (!keys) return std::nullopt;
  return Hidden{.keys = *keys, .all_of_some = sequence.padding.has_value()};
}

// Returns x (B, H, T, D) with each pair of columns rotated by the angle of its position.
Value turned(const Value& x, const MultiHeadOptions& options, const Sequence& sequence) {
  const std::int64_t D = options.head_width, T = sequence.longest;
  const std::vector<double> rates = rotary_rates(D, options.rotary);
  const auto table = [&](const char* name, const auto& wave) {  // (T, D / 2)
    Array values({T, D / 2});
    for (std::int64_t i = 0; i < values.size(); ++i)
      values.mutable_values<float>()[i] =
          static_cast<float>(wave(rates[i % (D / 2)] * static_cast<double>(i / (D / 2))));
    return rows_of(x.graph->constant(values, name), sequence);
  };
  const Value cosines = table("cosines", [](double angle) { return std::cos(angle); });
  const Value sines = table("sines", [](double angle) { return std::sin(angle); });
  const bool halves = options.rotary.pairs == RotaryPairs::halves;
  const Value a = halves ? slice(x, -1, 0, D / 2) : slice(x, -1, 0, D, 2);
  const Value b = halves ? slice(x, -1, D / 2, D) : slice(x, -1, 1, D, 2);
  const Value c = a * cosines - b * sines, d = a * sines + b * cosines;
  if (halves) return concat({c, d}, -1);
  const Value pairs = concat({unsqueeze(c, {4}), unsqueeze(d, {4})}, 4);  // (B, H, T, D / 2, 2)
  return reshape(pairs, {0, 0, 0, D});
}

// Returns keys or values (B, G, S, D) repeated for the queries' heads -> (B, H, S, D); H / G
// consecutive heads have the same.
Value shared_by(const Value& x, const MultiHeadOptions& options) {
  const std::int64_t H = options.heads, G = options.key_value_heads;
  if (G == H) return x;
  std::vector<std::int64_t> owners;
  for (std::int64_t head = 0; head < H; ++head) owners.push_back(head / (H / G));
  return gather(x, x.graph->integers(owners), 1);
}

// --- random features ---

constexpr double least = std::numeric_limits<float>::min();  // smallest divisor, instead of 0

struct FeatureValues {
  Value values;                       // (B, H, T, F)
  std::optional<Value> log_scales{};  // (B, H, T, 1)
};

// Returns the features that RandomFeatures::forward computes, with another order of the axes.
FeatureValues forward(const RandomFeatures& layer, const Value& x) {
  const Within module(x, layer.path());
  const std::int64_t D = layer.options.features, d = layer.projection.tensor.dim(2);
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  const Value projection = x.graph->parameter(layer.projection);  // (H, D, d)
  if (layer.sigma) {
    const Value w = unsqueeze(x.graph->parameter(*layer.sigma), {1}) * projection;
    const Value length = sqrt(sum(x * x, -1, Keep::yes));
    const Value unit = x / at_least(length, x.graph->constant(least));  // zeros stay zeros
    const Value angles = matmul(unit, transpose(w, {0, 2, 1}));
    return {.values = concat({sin(angles), cos(angles)}, -1) * scale};
  }
  const Value scaled = x * std::pow(static_cast<double>(d), -0.25);
  const Value logs =
      matmul(scaled, transpose(projection, {0, 2, 1})) - sum(scaled * scaled, -1, Keep::yes) * 0.5;
  const Value highest = max(logs, -1, Keep::yes);
  return {.values = exp(logs - highest) * scale, .log_scales = highest};
}

// Returns Σ_s w_ts (q_t · k_s) v_s / max(Σ_s w_ts (q_t · k_s), floor Σ_s w_ts), as linear_attention
// does, from all T × S products. The logarithms of w are shifted by each query's largest.
Value attend_by_features(const AttentionMechanism& by, const Value& x, const Value& q,
                         const Value& k, const Value& v, const std::optional<Hidden>& hidden) {
  const FeatureValues queries = forward(*by.features(), q), keys = forward(*by.features(), k);
  const Value products = matmul(queries.values, transpose(keys.values, {0, 1, 3, 2}));
  Value log_weights = products * 0.0;  // (B, H, T, S), all alike
  if (keys.log_scales) log_weights = log_weights + transpose(*keys.log_scales, {0, 1, 3, 2});
  if (by.gate()) {  // log of (1 - g_s) g_(s+1) … g_t
    const Value logits = transpose(forward(*by.gate(), x), {0, 2, 1});  // (B, H, T)
    const Value kept = running_sum(-softplus(-logits), 2);
    log_weights = log_weights + unsqueeze(kept, {3}) - unsqueeze(kept + softplus(logits), {2});
  }
  if (hidden) log_weights = where(hidden->keys, lowest(x), log_weights);
  Value weights = exp(log_weights - max(log_weights, -1, Keep::yes));
  if (hidden && hidden->all_of_some) weights = where(hidden->keys, x.graph->constant(0.0), weights);
  const Value parts = products * weights;
  const Value floor = sum(weights, -1, Keep::yes) * by.features()->floor() + least;
  return matmul(parts, v) / at_least(sum(parts, -1, Keep::yes), floor);
}

// Returns the output of a self- or cross-attention from the heads of queries, keys and values.
Value answer(const auto& layer, const Value& x, const Value& q, const Value& k, const Value& v,
             const std::optional<Hidden>& hidden) {
  const std::int64_t H = layer.options.heads, D = layer.options.head_width;
  const Value y = layer.mechanism->features()
                      ? attend_by_features(*layer.mechanism, x, q, k, v, hidden)
                      : attend(q, k, v, D, hidden);
  return forward(layer.output, join_heads(y, H * D));
}

}  // namespace

// --- heads ---

Value split_heads(const Value& x, std::int64_t heads, std::int64_t head_width) {
  return transpose(reshape(x, {0, 0, heads, head_width}), {0, 2, 1, 3});
}

Value join_heads(const Value& x, std::int64_t columns) {
  return reshape(transpose(x, {0, 2, 1, 3}), {0, 0, columns});
}

Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
             const std::optional<Hidden>& hidden) {
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const Value scores = matmul(q, transpose(k, {0, 1, 3, 2})) * scale;
  if (!hidden) return matmul(softmax(scores), v);
  const Value weights = softmax(where(hidden->keys, lowest(q), scores));
  return matmul(
      hidden->all_of_some ? where(hidden->keys, q.graph->constant(0.0), weights) : weights, v);
}

// --- positions ---

Value forward(const PositionalEncoding& layer, const Value& x, const Sequence& sequence) {
  const Within module(x, layer.path());
  switch (layer.options.kind) {
    case Positions::learned:
      return x + rows_of(x.graph->parameter(*layer.weight), sequence);
    case Positions::sinusoidal: {
      const std::int64_t T = sequence.longest, C = layer.options.width;
      const Array waves = layer.forward(Array::zeros({1, T, C})).value().reshaped({T, C});
      const double scale = layer.options.input_scale;
      return (scale == 1 ? x : x * scale) + rows_of(x.graph->constant(waves, "waves"), sequence);
    }
    case Positions::rotary:
    case Positions::none:
      return x;
  }
  throw_unhandled("positional encoding");
}

// --- attention ---

Value forward(const Attention& layer, const Value& x, const Value& source) {
  const Within module(x, layer.path());
  const std::int64_t D = layer.query.weight.tensor.dim(0);
  const auto head = [&](const Linear& map, const Value& from) {
    return split_heads(forward(map, from), 1, D);
  };
  return join_heads(
      attend(head(layer.query, x), head(layer.key, source), head(layer.value, source), D, {}), D);
}

Value forward(const SelfAttention& layer, const Value& x, const Sequence& sequence) {
  const Within module(x, layer.path());
  const MultiHeadOptions& options = layer.options;
  const std::int64_t H = options.heads, G = options.key_value_heads, D = options.head_width;
  const Value packed = forward(layer.query_key_value, x);
  const auto part = [&](std::int64_t first, std::int64_t heads) {
    return split_heads(slice(packed, -1, first * D, (first + heads) * D), heads, D);
  };
  Value query = part(0, H), key = part(H, G);
  if (layer.query_norm) query = forward(*layer.query_norm, query);
  if (layer.key_norm) key = forward(*layer.key_norm, key);
  if (options.positions == Positions::rotary) {
    query = turned(query, options, sequence);
    key = turned(key, options, sequence);
  }
  key = shared_by(key, options);
  const Value value = shared_by(part(H + G, G), options);
  return answer(layer, x, query, key, value, hidden_keys(x, sequence, options.window));
}

Value forward(const CrossAttention& layer, const Value& x, const Value& source,
              const std::optional<Value>& padding) {
  const Within module(x, layer.path());
  const std::int64_t H = layer.options.heads, D = layer.options.head_width, C = H * D;
  const Value packed = forward(layer.key_value, source);
  const Value query = split_heads(forward(layer.query, x), H, D);
  const Value key = split_heads(slice(packed, -1, 0, C), H, D);
  const Value value = split_heads(slice(packed, -1, C, 2 * C), H, D);
  std::optional<Hidden> hidden;
  if (padding) hidden = Hidden{.keys = of_keys(*padding), .all_of_some = true};
  return answer(layer, x, query, key, value, hidden);
}

// --- transformers ---

Value forward(const TransformerBlock& layer, const Value& x, const Sequence& sequence,
              const std::optional<Source>& source) {
  const Within module(x, layer.path());
  const auto residual = [&](const Value& y, const Norm& norm, const auto& branch) {
    if (layer.norm == NormPlacement::pre) return y + branch(forward(norm, y));
    return forward(norm, y + branch(y));
  };
  const auto attend_to_itself = [&](const Value& y) {
    return forward(layer.attention, y, sequence);
  };
  const auto attend_to_source = [&](const Value& y) {
    return forward(*layer.cross_attention, y, source->x, source->padding);
  };
  const auto feed = [&](const Value& y) { return forward(*layer.feed_forward, y); };
  Value y = residual(x, layer.attention_norm, attend_to_itself);
  if (source) y = residual(y, *layer.cross_attention_norm, attend_to_source);
  return layer.feed_forward ? residual(y, *layer.feed_forward_norm, feed) : y;
}

Value forward(const Encoder& layer, const Value& x, const Sequence& sequence) {
  const Within module(x, layer.path());
  Value y = x;
  for (const TransformerBlock& block : layer.blocks) y = forward(block, y, sequence);
  return y;
}

Value forward(const PatchEncoder& layer, const Value& x) {
  const Within module(x, layer.path());
  const Sequence sequence{.longest = layer.tokens()};
  Value y = forward(layer.projection, x);  // (B, N, C)
  if (layer.class_token) {
    const std::int64_t C = layer.options.block.width;
    const Value each = concat({lengths(x, 0, 1), x.graph->integers({1, C})}, 0);  // (B, 1, C)
    y = concat({expand(x.graph->parameter(*layer.class_token), each), y}, 1);
  }
  y = forward(layer.encoder, forward(layer.position_embedding, y, sequence), sequence);
  return layer.final_norm ? forward(*layer.final_norm, y) : y;
}

}  // namespace tapestry::onnx
