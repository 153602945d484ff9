#include "layers/attention.hpp"

#include <cstring>

#include "autograd/check.hpp"
#include "autograd/ops/rotary.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// to (B, capacity, C)[:, first : first + T] = columns [begin, begin + C) of from (B, T, 3C).
void append(const Array& from, std::int64_t begin, Array& to, std::int64_t first) {
  const auto element = static_cast<std::int64_t>(size_of(from.dtype()));
  const std::int64_t B = from.dim(0), T = from.dim(1), C = to.dim(2);
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < T; ++t)
      std::memcpy(to.mutable_raw() + ((b * to.dim(1) + first + t) * C) * element,
                  from.raw() + ((b * T + t) * from.dim(2) + begin) * element, C * element);
}

thread_local AttentionRecorder* recorder = nullptr;

void record_weights(const std::string& path, const Tensor& q, const Tensor& k,
                    const AttentionOptions& options) {
  recorder->entries.push_back({path, attention_weights(q.value(), k.value(), options)});
}

// x (B, T, C) -> (B, H, T, D)
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

// Biases from 1 to 5, so that heads start to forget after 1 / (1 - σ(bias)): 4 to 150 steps.
void start_remembering(Linear& gate) {
  const std::int64_t H = gate.weight.tensor.dim(0);
  Array bias = gate.bias.value();
  for (std::int64_t h = 0; h < H; ++h)
    bias.mutable_values<float>()[h] =
        H == 1 ? 3.0f : 1.0f + 4.0f * static_cast<float>(h) / static_cast<float>(H - 1);
}

}  // namespace

AttentionRecorder::AttentionRecorder() : outer_(recorder) { recorder = this; }
AttentionRecorder::~AttentionRecorder() { recorder = outer_; }

void KeyValueCache::select(const std::vector<std::int64_t>& rows) {
  if (sums) return sums->select(rows);
  keys = keys.select(rows);
  values = values.select(rows);
}

Attention::Attention(std::int64_t width, std::int64_t source_width, std::int64_t head_width,
                     Random& init, const LinearOptions& options)
    : query(width, head_width, init, options),
      key(source_width, head_width, init, options),
      value(source_width, head_width, init, options) {}

Tensor Attention::forward(const Tensor& x, const Tensor& source, AttentionOptions options) const {
  const Scope scope(path());
  options.heads = 1;
  return scaled_dot_product_attention(query.forward(x), key.forward(source), value.forward(source),
                                      options);
}

void Attention::fields(FieldVisitor& visit) {
  visit("query", query);
  visit("key", key);
  visit("value", value);
}

MultiHeadAttention::MultiHeadAttention(std::int64_t width, std::int64_t num_heads, Random& init,
                                       const Options& options)
    : output(width, width, init, options.output),
      heads(num_heads),
      rotary_positions(options.rotary_positions) {
  require(heads >= 1 && width % heads == 0, "multi-head attention: {} heads do not divide width {}",
          heads, width);
  require(!rotary_positions || (options.source_width == 0 && width / heads % 2 == 0),
          "multi-head attention: rotary positions need self-attention and an even head width, "
          "not {}",
          width / heads);
  const std::optional<RandomFeaturesOptions>& random = options.random_features;
  const bool gated = random && random->gate;
  require(!gated || options.source_width == 0, "multi-head attention: a gate needs self-attention");
  if (options.source_width == 0) {
    query_key_value.emplace(width, 3 * width, init, options.input);
  } else {
    query.emplace(width, width, init, options.input);
    key_value.emplace(options.source_width, 2 * width, init, options.input);
  }
  if (random) features.emplace(heads, width / heads, init, *random);
  if (!gated) return;
  gate.emplace(width, heads, init,
               LinearOptions{.standard_deviation = options.input.standard_deviation});
  start_remembering(*gate);
}

Tensor MultiHeadAttention::forward(const Tensor& x, AttentionOptions options) const {
  require(query_key_value.has_value(), "multi-head attention: cross-attention needs a source");
  const Scope scope(path());
  options.heads = heads;
  const Tensor qkv = project(x, 0);
  if (features) return output.forward(attend_by_features(x, qkv, options));
  const std::int64_t C = qkv.dim(-1) / 3;
  if (recorder) record_weights(path(), slice(qkv, -1, 0, C), slice(qkv, -1, C, 2 * C), options);
  return output.forward(packed_self_attention(qkv, options));
}

Tensor MultiHeadAttention::forward(const Tensor& x, const Tensor& source,
                                   AttentionOptions options) const {
  return attend(x, project_source(source), std::move(options));
}

Tensor MultiHeadAttention::project_source(const Tensor& source) const {
  require(key_value.has_value(), "multi-head attention: self-attention takes no source");
  const Scope scope(path());
  return key_value->forward(source);
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& projected,
                                  AttentionOptions options) const {
  require(query.has_value(), "multi-head attention: self-attention takes no source");
  const Scope scope(path());
  options.heads = heads;
  const Tensor q = query->forward(x);
  const std::int64_t C = q.dim(-1);
  if (features)
    return output.forward(attend_by_features(q, slice(projected, -1, 0, C),
                                             slice(projected, -1, C, 2 * C), {}, options));
  if (recorder) record_weights(path(), q, slice(projected, -1, 0, C), options);
  return output.forward(packed_cross_attention(q, projected, options));
}

Tensor MultiHeadAttention::forward(const Tensor& x, KeyValueCache& cache,
                                   AttentionOptions options) const {
  require(query_key_value.has_value(), "multi-head attention: cross-attention has no cache");
  require(features.has_value() == cache.sums.has_value(),
          "multi-head attention: a cache of {} for attention by {}", cache.sums ? "sums" : "keys",
          features ? "random features" : "softmax");
  const Scope scope(path());
  options.heads = heads;
  if (features) {
    const Tensor qkv = project(x, cache.length);
    cache.length += x.dim(1);
    return output.forward(attend_by_features(x, qkv, options, &*cache.sums));
  }
  const Array& keys = cache.keys;
  require(x.rank() == 3 && x.dim(0) == keys.dim(0) && cache.length + x.dim(1) <= keys.dim(1) &&
              x.dim(2) == keys.dim(2) && x.dtype() == keys.dtype(),
          "multi-head attention: x {} {} after {} in a cache of {} {}", to_string(x.shape()),
          to_string(x.dtype()), cache.length, to_string(keys.shape()), to_string(keys.dtype()));
  const std::int64_t T = x.dim(1), C = x.dim(2);
  const Tensor qkv = project(x, cache.length);
  append(qkv.value(), C, cache.keys, cache.length);
  append(qkv.value(), 2 * C, cache.values, cache.length);
  cache.length += T;
  options.keys = cache.length;
  return output.forward(
      scaled_dot_product_attention(slice(qkv, -1, 0, C), cache.keys, cache.values, options));
}

Tensor MultiHeadAttention::project(const Tensor& x, std::int64_t first) const {
  const Tensor qkv = query_key_value->forward(x);
  if (!rotary_positions) return qkv;
  const std::int64_t C = qkv.dim(-1) / 3;
  return rotary(qkv, {.head_width = C / heads, .columns = 2 * C, .first = first});
}

Tensor MultiHeadAttention::attend_by_features(const Tensor& x, const Tensor& qkv,
                                              const AttentionOptions& options,
                                              LinearAttentionState* state) const {
  const std::int64_t C = x.dim(-1);
  return attend_by_features(slice(qkv, -1, 0, C), slice(qkv, -1, C, 2 * C),
                            slice(qkv, -1, 2 * C, 3 * C), gate ? gate->forward(x) : Tensor(),
                            options, state);
}

Tensor MultiHeadAttention::attend_by_features(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const Tensor& gate_logits,
                                              const AttentionOptions& options,
                                              LinearAttentionState* state) const {
  expect_input(!recorder, "random-feature attention has no weights to look at");
  require(options.mask.empty() && options.window == 0 && options.keys < 0,
          "multi-head attention: random features know no mask, window or first keys");
  const Features keys = features->forward(split_heads(k, heads));
  return linear_attention(features->forward(split_heads(q, heads)).values, keys.values, v,
                          gate_logits,
                          {.causal = options.causal,
                           .key_padding = options.key_padding,
                           .key_log_scales = keys.log_scales,
                           .floor = features->floor(),
                           .state = state});
}

KeyValueCache MultiHeadAttention::make_cache(std::int64_t batch, std::int64_t capacity) const {
  const std::int64_t C = output.weight.tensor.dim(0);
  const DType dtype = output.weight.tensor.dtype();
  if (!features) return KeyValueCache(batch, capacity, C, dtype);
  return KeyValueCache(LinearAttentionState(batch, heads, features->width(), C / heads, dtype));
}

void MultiHeadAttention::fields(FieldVisitor& visit) {
  if (query_key_value) visit("query_key_value", *query_key_value);
  if (query) visit("query", *query);
  if (key_value) visit("key_value", *key_value);
  if (features) visit("features", *features);
  if (gate) visit("gate", *gate);
  visit("output", output);
}

}  // namespace tapestry
