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
                  from.raw() + ((b * T + t) * from.dim(2) + begin) * element,
                  static_cast<std::size_t>(C * element));
}

thread_local AttentionRecorder* recorder = nullptr;

void record_weights(const std::string& path, const Tensor& q, const Tensor& k,
                    const AttentionOptions& options) {
  recorder->entries.push_back({path, attention_weights(q.value(), k.value(), options)});
}

}  // namespace

AttentionRecorder::AttentionRecorder() : outer_(recorder) { recorder = this; }
AttentionRecorder::~AttentionRecorder() { recorder = outer_; }

void KeyValueCache::select(const std::vector<std::int64_t>& rows) {
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
  if (options.source_width == 0) {
    query_key_value.emplace(width, 3 * width, init, options.input);
  } else {
    query.emplace(width, width, init, options.input);
    key_value.emplace(options.source_width, 2 * width, init, options.input);
  }
}

Tensor MultiHeadAttention::forward(const Tensor& x, AttentionOptions options) const {
  require(query_key_value.has_value(), "multi-head attention: cross-attention needs a source");
  const Scope scope(path());
  options.heads = heads;
  const Tensor qkv = project(x, 0);
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
  if (recorder) record_weights(path(), q, slice(projected, -1, 0, q.dim(-1)), options);
  return output.forward(packed_cross_attention(q, projected, options));
}

Tensor MultiHeadAttention::forward(const Tensor& x, KeyValueCache& cache,
                                   AttentionOptions options) const {
  require(query_key_value.has_value(), "multi-head attention: cross-attention has no cache");
  const Array& keys = cache.keys;
  require(x.rank() == 3 && x.dim(0) == keys.dim(0) && cache.length + x.dim(1) <= keys.dim(1) &&
              x.dim(2) == keys.dim(2) && x.dtype() == keys.dtype(),
          "multi-head attention: x {} {} after {} in a cache of {} {}", to_string(x.shape()),
          to_string(x.dtype()), cache.length, to_string(keys.shape()), to_string(keys.dtype()));
  const std::int64_t T = x.dim(1), C = x.dim(2);
  const Scope scope(path());
  const Tensor qkv = project(x, cache.length);
  append(qkv.value(), C, cache.keys, cache.length);
  append(qkv.value(), 2 * C, cache.values, cache.length);
  cache.length += T;
  options.heads = heads;
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

void MultiHeadAttention::fields(FieldVisitor& visit) {
  if (query_key_value) visit("query_key_value", *query_key_value);
  if (query) visit("query", *query);
  if (key_value) visit("key_value", *key_value);
  visit("output", output);
}

}  // namespace tapestry
