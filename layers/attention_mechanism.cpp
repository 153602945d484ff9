#include "layers/attention_mechanism.hpp"

#include <cstring>

#include "autograd/check.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {
namespace {

// Columns [begin, begin + width) of packed.
Tensor part_of(const Tensor& packed, std::int64_t begin, std::int64_t width) {
  return slice(packed, -1, begin, begin + width);
}

// x (B, T, C) -> (B, H, T, D)
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

// to (B, capacity, C)[:, first : first + T] = from (B, T, C).
void write_rows(const Array& from, Array& to, std::int64_t first) {
  const std::int64_t T = from.dim(1), row = from.dim(2) * size_of(from.dtype());  // in bytes
  for (std::int64_t b = 0; b < from.dim(0); ++b)
    std::memcpy(to.mutable_raw() + (b * to.dim(1) + first) * row, from.raw() + b * T * row,
                T * row);
}

// The cache as the kind that its mechanism makes; else std::invalid_argument, which says `mistake`.
template <class Cache>
Cache& as(AttentionCache& cache, const char* mistake) {
  auto* own = dynamic_cast<Cache*>(&cache);
  require(own != nullptr, "multi-head attention: {}", mistake);
  return *own;
}

// The keys and values of the tokens.
class KeyValueCache final : public AttentionCache {
 public:
  KeyValueCache(const Shape& extent, DType dtype) : keys_(extent, dtype), values_(extent, dtype) {}

  std::int64_t length() const override { return length_; }
  const Array& keys() const { return keys_; }  // (B, capacity, C), of which `length` are filled
  const Array& values() const { return values_; }

  void append(const QueryKeyValue& qkv) {
    const Array key = qkv.key().value(), value = qkv.value().value();
    write_rows(key, keys_, length_);
    write_rows(value, values_, length_);
    length_ += key.dim(1);
  }

  void select(const std::vector<std::int64_t>& rows) override {
    keys_ = keys_.select(rows);
    values_ = values_.select(rows);
  }

 private:
  Array keys_, values_;
  std::int64_t length_ = 0;
};

class SoftmaxMechanism final : public AttentionMechanism {
 public:
  Tensor attend(const Tensor&, const QueryKeyValue& qkv,
                const AttentionOptions& options) const override {
    return packed_self_attention(qkv.packed, options);
  }

  Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                const AttentionOptions& options) const override {
    auto& seen = as<KeyValueCache>(cache, "a cache of sums for attention by softmax");
    const Array& keys = seen.keys();
    require(x.rank() == 3 && x.dim(0) == keys.dim(0) && seen.length() + x.dim(1) <= keys.dim(1) &&
                x.dim(2) == keys.dim(2) && x.dtype() == keys.dtype(),
            "multi-head attention: x {} {} after {} in a cache of {} {}", to_string(x.shape()),
            to_string(x.dtype()), seen.length(), to_string(keys.shape()), to_string(keys.dtype()));
    seen.append(qkv);
    AttentionOptions so_far = options;
    so_far.keys = seen.length();
    return scaled_dot_product_attention(qkv.query(), keys, seen.values(), so_far);
  }

  std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const override {
    return std::make_unique<KeyValueCache>(extent, dtype);
  }

  Tensor attend(const Tensor& query, const KeyValue& source,
                const AttentionOptions& options) const override {
    return packed_cross_attention(query, source.packed, options);
  }

  Array weights(const Tensor& query, const Tensor& key,
                const AttentionOptions& options) const override {
    return attention_weights(query.value(), key.value(), options);
  }
};

// Biases from 1 to 5, so that heads start to forget after 1 / (1 - σ(bias)): 4 to 150 steps.
void start_remembering(Linear& gate) {
  const std::int64_t H = gate.weight.tensor.dim(0);
  Array bias = gate.bias.value();
  for (std::int64_t h = 0; h < H; ++h)
    bias.mutable_values<float>()[h] =
        H == 1 ? 3.0f : 1.0f + 4.0f * static_cast<float>(h) / static_cast<float>(H - 1);
}

// What the keys and values of the tokens add up to.
class SumsCache final : public AttentionCache {
 public:
  explicit SumsCache(const LinearAttentionState& empty) : sums_(empty) {}

  std::int64_t length() const override { return length_; }
  LinearAttentionState& sums() { return sums_; }
  void count(std::int64_t tokens) { length_ += tokens; }
  void select(const std::vector<std::int64_t>& rows) override { sums_.select(rows); }

 private:
  LinearAttentionState sums_;
  std::int64_t length_ = 0;
};

class RandomFeatureMechanism final : public AttentionMechanism {
 public:
  RandomFeatureMechanism(std::int64_t width, Random& init, const MultiHeadOptions& options)
      : heads_(options.heads), features_(heads_, width / heads_, init, *options.random_features) {
    if (!options.random_features->gate) return;
    gate_.emplace(width, heads_, init,
                  LinearOptions{.standard_deviation = options.input.standard_deviation});
    start_remembering(*gate_);
  }

  Tensor attend(const Tensor& x, const QueryKeyValue& qkv,
                const AttentionOptions& options) const override {
    return combine(operands(x, qkv), options);
  }

  Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                const AttentionOptions& options) const override {
    auto& seen = as<SumsCache>(cache, "a cache of keys for attention by random features");
    const Tensor y = combine(operands(x, qkv), options, &seen.sums());
    seen.count(x.dim(1));
    return y;
  }

  std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const override {
    return std::make_unique<SumsCache>(
        LinearAttentionState(extent[0], heads_, features_.width(), extent[2] / heads_, dtype));
  }

  Tensor attend(const Tensor& query, const KeyValue& source,
                const AttentionOptions& options) const override {
    return combine({.query = query, .key = source.key(), .value = source.value()}, options);
  }

  Array weights(const Tensor&, const Tensor&, const AttentionOptions&) const override {
    throw InputError("random-feature attention has no weights to look at");
  }

  void fields(FieldVisitor& visit) override {
    visit("features", features_);
    if (gate_) visit("gate", *gate_);
  }

 private:
  struct Operands {
    Tensor query, key, value;  // (B, T, C), (B, S, C) twice
    Tensor gate{};             // logits (B, S, H), or empty
  };

  Operands operands(const Tensor& x, const QueryKeyValue& qkv) const {
    return {.query = qkv.query(),
            .key = qkv.key(),
            .value = qkv.value(),
            .gate = gate_ ? gate_->forward(x) : Tensor()};
  }

  Tensor combine(const Operands& of, const AttentionOptions& options,
                 LinearAttentionState* state = nullptr) const {
    require(options.mask.empty() && options.window == 0 && options.keys < 0,
            "multi-head attention: random features know no mask, window or first keys");
    const Features keys = features_.forward(split_heads(of.key, heads_));
    const Features queries = features_.forward(split_heads(of.query, heads_));
    return linear_attention(queries.values, keys.values, of.value, of.gate,
                            {.causal = options.causal,
                             .key_padding = options.key_padding,
                             .key_log_scales = keys.log_scales,
                             .floor = features_.floor(),
                             .state = state});
  }

  std::int64_t heads_;
  RandomFeatures features_;
  std::optional<Linear> gate_;  // (H, C)
};

}  // namespace

Tensor QueryKeyValue::query() const { return part_of(packed, 0, width); }
Tensor QueryKeyValue::key() const { return part_of(packed, width, width); }
Tensor QueryKeyValue::value() const { return part_of(packed, columns_before_value(), width); }

Tensor KeyValue::key() const { return part_of(packed, 0, width); }
Tensor KeyValue::value() const { return part_of(packed, width, width); }

std::unique_ptr<AttentionMechanism> make_attention_mechanism(std::int64_t width, Random& init,
                                                             const MultiHeadOptions& options) {
  if (options.random_features)
    return std::make_unique<RandomFeatureMechanism>(width, init, options);
  return std::make_unique<SoftmaxMechanism>();
}

}  // namespace tapestry
