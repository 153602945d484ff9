#include "layers/attention.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/rotary.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

thread_local AttentionRecorder* recorder = nullptr;

// The options, if their heads divide the width.
const MultiHeadOptions& checked(const MultiHeadOptions& options, std::int64_t width) {
  require(options.heads >= 1 && width % options.heads == 0,
          "multi-head attention: {} heads do not divide width {}", options.heads, width);
  return options;
}

}  // namespace

AttentionRecorder::AttentionRecorder() : outer_(recorder) { recorder = this; }
AttentionRecorder::~AttentionRecorder() { recorder = outer_; }

// --- one head ---

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

// --- self-attention ---

SelfAttention::SelfAttention(std::int64_t width, Random& init, const MultiHeadOptions& wanted)
    : options(checked(wanted, width)),
      output(width, width, init, options.output),
      query_key_value(width, 3 * width, init, options.input),
      mechanism(make_attention_mechanism(width, init, options)) {
  require(options.positions != Positions::rotary || width / options.heads % 2 == 0,
          "multi-head attention: rotary positions need an even head width, not {}",
          width / options.heads);
}

QueryKeyValue SelfAttention::project(const Tensor& x, std::int64_t first) const {
  QueryKeyValue qkv{.packed = query_key_value.forward(x), .width = output.weight.tensor.dim(0)};
  if (options.positions == Positions::rotary)
    qkv.packed = rotary(qkv.packed, {.head_width = qkv.width / options.heads,
                                     .columns = qkv.columns_before_value(),
                                     .first = first});
  return qkv;
}

AttentionOptions SelfAttention::completed(AttentionOptions call) const {
  call.heads = options.heads;
  if (options.window > 0) call.window = options.window;
  return call;
}

Tensor SelfAttention::forward(const Tensor& x, const AttentionOptions& call) const {
  const Scope scope(path());
  const AttentionOptions all = completed(call);
  const QueryKeyValue qkv = project(x);
  if (recorder)
    recorder->entries.push_back({path(), mechanism->weights(qkv.query(), qkv.key(), all)});
  return output.forward(mechanism->attend(x, qkv, all));
}

Tensor SelfAttention::forward(const Tensor& x, AttentionCache& cache,
                              const AttentionOptions& call) const {
  const Scope scope(path());
  const QueryKeyValue qkv = project(x, cache.length());
  return output.forward(mechanism->attend(x, qkv, cache, completed(call)));
}

std::unique_ptr<AttentionCache> SelfAttention::make_cache(std::int64_t batch,
                                                          std::int64_t capacity) const {
  const Tensor& weight = output.weight;
  return mechanism->make_cache({batch, capacity, weight.dim(0)}, weight.dtype());
}

void SelfAttention::fields(FieldVisitor& visit) {
  visit("query_key_value", query_key_value);
  mechanism->fields(visit);
  visit("output", output);
}

// --- cross-attention ---

CrossAttention::CrossAttention(std::int64_t width, std::int64_t source_width, Random& init,
                               const MultiHeadOptions& wanted)
    : options(checked(wanted, width)),
      output(width, width, init, options.output),
      query(width, width, init, options.input),
      key_value(source_width, 2 * width, init, options.input),
      mechanism(make_attention_mechanism(width, init, options)) {
  require(!options.random_features || !options.random_features->gate,
          "multi-head attention: a gate needs self-attention");
}

KeyValue CrossAttention::project(const Tensor& source) const {
  const Scope scope(path());
  return {.packed = key_value.forward(source), .width = output.weight.tensor.dim(0)};
}

Tensor CrossAttention::attend(const Tensor& x, const KeyValue& source,
                              AttentionOptions call) const {
  const Scope scope(path());
  call.heads = options.heads;
  const Tensor q = query.forward(x);
  if (recorder) recorder->entries.push_back({path(), mechanism->weights(q, source.key(), call)});
  return output.forward(mechanism->attend(q, source, call));
}

Tensor CrossAttention::forward(const Tensor& x, const Tensor& source,
                               const AttentionOptions& call) const {
  return attend(x, project(source), call);
}

void CrossAttention::fields(FieldVisitor& visit) {
  visit("query", query);
  visit("key_value", key_value);
  mechanism->fields(visit);
  visit("output", output);
}

}  // namespace tapestry
