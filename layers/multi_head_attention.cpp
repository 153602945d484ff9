#include "layers/multi_head_attention.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/norms.hpp"
#include "autograd/ops/rotary.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

thread_local AttentionRecorder* recorder = nullptr;

// Returns the options with each 0 replaced by its default. Throws std::invalid_argument if they do
// not fit.
MultiHeadOptions completed_options(MultiHeadOptions options, std::int64_t width) {
  const std::int64_t H = options.heads;
  require(H >= 1 && (options.head_width > 0 || width % H == 0),
          "multi-head attention: {} heads do not divide width {}; expected a divisor, or set "
          "head_width",
          H, width);
  if (options.head_width == 0) options.head_width = width / H;
  if (options.key_value_heads == 0) options.key_value_heads = H;
  require(options.key_value_heads >= 1 && H % options.key_value_heads == 0,
          "multi-head attention: {} key-value heads do not divide {} heads; expected a divisor",
          options.key_value_heads, H);
  return options;
}

std::int64_t columns_of(const MultiHeadOptions& options) {
  return options.heads * options.head_width;
}

std::int64_t shared_columns_of(const MultiHeadOptions& options) {
  return options.key_value_heads * options.head_width;
}

std::optional<Norm> make_head_norm(const MultiHeadOptions& options) {
  if (!options.query_key_norm) return std::nullopt;
  return Norm(options.head_width, {.kind = NormKind::rms, .epsilon = *options.query_key_norm});
}

}  // namespace

AttentionRecorder::AttentionRecorder() : current_(recorder, this) {}

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

TAPESTRY_FIELDS(Attention, query, key, value)

// --- self-attention ---

SelfAttention::SelfAttention(std::int64_t width, Random& init, const MultiHeadOptions& wanted)
    : options(completed_options(wanted, width)),
      output(columns_of(options), width, init, options.output),
      query_key_value(width, columns_of(options) + 2 * shared_columns_of(options), init,
                      options.input),
      query_norm(make_head_norm(options)),
      key_norm(make_head_norm(options)),
      mechanism(make_attention_mechanism(width, init, options)) {
  require(options.positions != Positions::rotary || options.head_width % 2 == 0,
          "multi-head attention: head width {}; expected an even width for rotary positions",
          options.head_width);
}

QueryKeyValue SelfAttention::project(const Tensor& x,
                                     const std::vector<std::int64_t>& firsts) const {
  return project(x, RotaryOptions{.firsts = firsts}, nullptr);
}

QueryKeyValue SelfAttention::project(const Tensor& x, const Array& positions, Random* noise) const {
  return project(x, RotaryOptions{.positions = positions}, noise);
}

QueryKeyValue SelfAttention::project(const Tensor& x, RotaryOptions turn, Random* noise) const {
  QueryKeyValue qkv{.packed = query_key_value.forward(x, noise),
                    .query_columns = columns_of(options),
                    .shared_columns = shared_columns_of(options)};
  if (query_norm) qkv.packed = normalized(qkv);
  if (options.positions != Positions::rotary) return qkv;
  turn.head_width = options.head_width;
  turn.columns = qkv.columns_before_value();
  turn.form = options.rotary;
  qkv.packed = rotary(qkv.packed, turn);
  return qkv;
}

Tensor SelfAttention::normalized(const QueryKeyValue& qkv) const {
  const double epsilon = *options.query_key_norm;
  const Tensor queries =
      rms_norm(qkv.packed, query_norm->weight, {.epsilon = epsilon, .columns = qkv.query_columns});
  return rms_norm(queries, key_norm->weight,
                  {.epsilon = epsilon, .first = qkv.query_columns, .columns = qkv.shared_columns});
}

AttentionOptions SelfAttention::completed(AttentionOptions call) const {
  call.heads = options.heads;
  call.key_value_heads = options.key_value_heads;
  if (options.window > 0) call.window = options.window;
  return call;
}

Tensor SelfAttention::forward(const Tensor& x, const AttentionOptions& call, Random* noise) const {
  const Scope scope(path());
  const AttentionOptions all = completed(call);
  const QueryKeyValue qkv = project(x, positions_in_documents(call.document_starts), noise);
  if (recorder)
    recorder->entries.push_back({path(), mechanism->weights(qkv.query(), qkv.key(), all)});
  return output.forward(mechanism->attend(x, qkv, all), noise);
}

Tensor SelfAttention::forward(const Tensor& x, AttentionCache& cache,
                              const AttentionOptions& call) const {
  const Scope scope(path());
  const QueryKeyValue qkv = project(x, cache.lengths());
  return output.forward(mechanism->attend(x, qkv, cache, completed(call)));
}

std::unique_ptr<AttentionCache> SelfAttention::make_cache(std::int64_t batch,
                                                          std::int64_t capacity) const {
  return mechanism->make_cache({batch, capacity, shared_columns_of(options)}, output.dtype());
}

void SelfAttention::fields(FieldVisitor& visit) {
  visit("query_key_value", query_key_value);
  if (query_norm) visit("query_norm", *query_norm);
  if (key_norm) visit("key_norm", *key_norm);
  mechanism->fields(visit);
  visit("output", output);
}

// --- cross-attention ---

CrossAttention::CrossAttention(std::int64_t width, std::int64_t source_width, Random& init,
                               const MultiHeadOptions& wanted)
    : options(completed_options(wanted, width)),
      output(width, width, init, options.output),
      query(width, width, init, options.input),
      key_value(source_width, 2 * width, init, options.input),
      mechanism(make_attention_mechanism(width, init, options)) {
  require(!options.random_features || !options.random_features->gate,
          "multi-head attention: cross-attention does not support the gate of random features; "
          "unset gate");
  require(columns_of(options) == width && shared_columns_of(options) == width &&
              !options.query_key_norm,
          "multi-head attention: cross-attention does not support key_value_heads, head_width and "
          "query_key_norm; leave them unset");
}

KeyValue CrossAttention::project(const Tensor& source, Random* noise) const {
  const Scope scope(path());
  return {.packed = key_value.forward(source, noise), .width = output.weight.tensor.dim(0)};
}

Tensor CrossAttention::attend(const Tensor& x, const KeyValue& source, AttentionOptions call,
                              Random* noise) const {
  const Scope scope(path());
  call.heads = options.heads;
  const Tensor q = query.forward(x, noise);
  if (recorder) recorder->entries.push_back({path(), mechanism->weights(q, source.key(), call)});
  return output.forward(mechanism->attend(q, source, call), noise);
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
