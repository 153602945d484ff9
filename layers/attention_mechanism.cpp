#include "layers/attention_mechanism.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "autograd/check.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/parallel.hpp"
#include "autograd/tape.hpp"

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

// Some columns of each of from's rows (B, T, columns), from `begin` on, become rows of `to`
// (B, room, C), from row firsts[b] of example b on.
void write_rows(const Array& from, std::int64_t begin, const std::vector<std::int64_t>& firsts,
                Array& to) {
  const std::int64_t T = from.dim(1), element = size_of(from.dtype());
  const std::int64_t from_row = from.dim(2) * element, row = to.dim(2) * element;
  for (std::int64_t b = 0; b < from.dim(0); ++b)
    for (std::int64_t t = 0; t < T; ++t)
      std::memcpy(to.mutable_raw() + (b * to.dim(1) + firsts[b] + t) * row,
                  from.raw() + (b * T + t) * from_row + begin * element, row);
}

// The cache as the kind that its mechanism makes; else std::invalid_argument, which says `mistake`.
template <class Cache, class Given>
Cache& as(Given& cache, const char* mistake) {
  auto* own = dynamic_cast<Cache*>(&cache);
  require(own != nullptr, "multi-head attention: {}", mistake);
  return *own;
}

// The rows of one part of several caches, along the first axis.
template <class Cache, class Part>
Array joined(const Cache& first, const std::vector<const AttentionCache*>& others, Part part,
             const char* mistake) {
  const NoTape no_tape;
  std::vector<Tensor> parts{std::invoke(part, first)};
  for (const AttentionCache* other : others)
    parts.push_back(std::invoke(part, as<const Cache>(*other, mistake)));
  return concat(parts, 0).value();
}

// The keys and values of the tokens. There is room for the longest row, and up to the capacity for
// as many tokens again.
class KeyValueCache final : public AttentionCache {
 public:
  KeyValueCache(const Shape& extent, DType dtype)
      : AttentionCache(extent[0]), capacity_(extent[1]), width_(extent[2]), dtype_(dtype) {
    take(own_rows(), 0);
  }

  Shape extent() const { return {std::ssize(lengths()), capacity_, width_}; }
  DType dtype() const { return dtype_; }
  const Array& keys() const { return keys_; }  // (B, room, G · D), `lengths` of them filled
  const Array& values() const { return values_; }

  void add(const QueryKeyValue& qkv) {
    const Array& packed = qkv.packed.value();
    const std::int64_t tokens = length() + packed.dim(1);
    if (tokens > keys_.dim(1)) take(own_rows(), tokens);
    write_rows(packed, qkv.query_columns, lengths(), keys_);
    write_rows(packed, qkv.columns_before_value(), lengths(), values_);
    count(packed.dim(1));
  }

 private:
  struct Row {
    const KeyValueCache* of;
    std::int64_t index;

    std::int64_t length() const { return of->lengths()[index]; }
  };
  using Rows = std::vector<Row>;

  Rows own_rows() const {
    Rows rows;
    for (std::int64_t b = 0; b < std::ssize(lengths()); ++b) rows.push_back({this, b});
    return rows;
  }

  // Such copies take no longer than writing the tokens did, for the room doubles.
  std::int64_t room_for(std::int64_t tokens) const {
    constexpr std::uint64_t least = 64;
    if (tokens == 0) return 0;
    const std::uint64_t doubled = std::bit_ceil(std::max<std::uint64_t>(tokens, least));
    return std::min(capacity_, static_cast<std::int64_t>(doubled));
  }

  // Copies of the rows take the place of what is here, with room for so many tokens each.
  void take(const Rows& rows, std::int64_t tokens) {
    const std::int64_t room = room_for(tokens), row = width_ * size_of(dtype_);
    const std::int64_t grain = (1 << 16) / std::max<std::int64_t>(1, tokens * row) + 1;
    for (Array KeyValueCache::*part : {&KeyValueCache::keys_, &KeyValueCache::values_}) {
      Array all({std::ssize(rows), room, width_}, dtype_);
      parallel_for(std::ssize(rows), grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          if (rows[b].length() == 0) continue;
          const Array& from = rows[b].of->*part;
          std::memcpy(all.mutable_raw() + b * room * row,
                      from.raw() + rows[b].index * from.dim(1) * row, rows[b].length() * row);
        }
      });
      this->*part = all;
    }
  }

  static std::int64_t longest(const Rows& rows) {
    std::int64_t tokens = 0;
    for (const Row& row : rows) tokens = std::max(tokens, row.length());
    return tokens;
  }

  void select_rows(const std::vector<std::int64_t>& indices) override {
    Rows rows;
    for (const std::int64_t index : indices) rows.push_back({this, index});
    take(rows, longest(rows));
  }

  void append_rows(const std::vector<const AttentionCache*>& others) override {
    Rows rows = own_rows();
    for (const AttentionCache* other : others) {
      const auto& own = as<const KeyValueCache>(*other, "a cache of sums after one of keys");
      require(own.capacity_ == capacity_ && own.width_ == width_ && own.dtype_ == dtype_,
              "multi-head attention: a cache of {} {} after one of {} {}", to_string(own.extent()),
              to_string(own.dtype_), to_string(extent()), to_string(dtype_));
      const Rows more = own.own_rows();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    take(rows, longest(rows));
  }

  std::int64_t capacity_, width_;
  DType dtype_;
  Array keys_, values_;
};

// Attention to the keys that each row has seen: the same number for all, or each its own.
AttentionOptions to_seen_keys(AttentionOptions options, const AttentionCache& cache) {
  const std::vector<std::int64_t>& lengths = cache.lengths();
  options.keys = cache.length();
  if (std::ranges::count(lengths, options.keys) < std::ssize(lengths))
    options.key_counts =
        Array::of(std::vector<std::int32_t>(lengths.begin(), lengths.end()), {std::ssize(lengths)});
  return options;
}

class SoftmaxMechanism final : public AttentionMechanism {
 public:
  Tensor attend(const Tensor&, const QueryKeyValue& qkv,
                const AttentionOptions& options) const override {
    return packed_self_attention(qkv.packed, options);
  }

  Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                const AttentionOptions& options) const override {
    auto& seen = as<KeyValueCache>(cache, "a cache of sums for attention by softmax");
    const Shape extent = seen.extent();
    require(x.rank() == 3 && x.dim(0) == extent[0] && seen.length() + x.dim(1) <= extent[1] &&
                qkv.shared_columns == extent[2] && x.dtype() == seen.dtype(),
            "multi-head attention: x {} {} after {} in a cache of {} {}", to_string(x.shape()),
            to_string(x.dtype()), seen.length(), to_string(extent), to_string(seen.dtype()));
    seen.add(qkv);
    return scaled_dot_product_attention(qkv.query(), seen.keys(), seen.values(),
                                        to_seen_keys(options, seen));
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
  SumsCache(std::int64_t batch, const LinearAttentionState& empty)
      : AttentionCache(batch), sums_(empty) {}

  LinearAttentionState& sums() { return sums_; }
  using AttentionCache::count;

 private:
  void select_rows(const std::vector<std::int64_t>& rows) override { sums_.select(rows); }

  void append_rows(const std::vector<const AttentionCache*>& others) override {
    const auto rows_of = [&](auto member) {
      const auto part = [member](const SumsCache& cache) { return cache.sums_.*member; };
      return joined<SumsCache>(*this, others, part, "a cache of keys after one of sums");
    };
    LinearAttentionState all = sums_;
    all.sums = rows_of(&LinearAttentionState::sums);
    all.log_units = rows_of(&LinearAttentionState::log_units);
    all.weights = rows_of(&LinearAttentionState::weights);
    sums_ = all;
  }

  LinearAttentionState sums_;
};

class RandomFeatureMechanism final : public AttentionMechanism {
 public:
  RandomFeatureMechanism(std::int64_t width, Random& init, const MultiHeadOptions& options)
      : heads_(options.heads),
        features_(heads_, options.head_width, init, *options.random_features) {
    require(options.key_value_heads == heads_,
            "multi-head attention: random features share no heads, not {} by {}",
            options.key_value_heads, heads_);
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
        extent[0],
        LinearAttentionState(extent[0], heads_, features_.width(), extent[2] / heads_, dtype));
  }

  Tensor attend(const Tensor& query, const KeyValue& source,
                const AttentionOptions& options) const override {
    return combine({.query = query, .key = source.key(), .value = source.value()}, options);
  }

  Array weights(const Tensor&, const Tensor&, const AttentionOptions&) const override {
    throw InputError("random-feature attention has no weights to look at");
  }

  const RandomFeatures* features() const override { return &features_; }
  const Linear* gate() const override { return gate_ ? &*gate_ : nullptr; }

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
    require(options.mask.empty() && options.window == 0 && options.keys < 0 &&
                options.document_starts.empty(),
            "multi-head attention: random features know no mask, window, documents or first keys");
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

std::int64_t AttentionCache::length() const {
  return lengths_.empty() ? 0 : std::ranges::max(lengths_);
}

void AttentionCache::count(std::int64_t tokens) {
  for (std::int64_t& length : lengths_) length += tokens;
}

void AttentionCache::select(const std::vector<std::int64_t>& rows) {
  for (const std::int64_t row : rows)
    require(row >= 0 && row < std::ssize(lengths_), "multi-head attention: row {} of a cache of {}",
            row, lengths_.size());
  select_rows(rows);
  std::vector<std::int64_t> selected;
  for (const std::int64_t row : rows) selected.push_back(lengths_[row]);
  lengths_ = std::move(selected);
}

void AttentionCache::append(const std::vector<const AttentionCache*>& others) {
  append_rows(others);
  for (const AttentionCache* other : others)
    lengths_.insert(lengths_.end(), other->lengths_.begin(), other->lengths_.end());
}

Tensor QueryKeyValue::query() const { return part_of(packed, 0, query_columns); }
Tensor QueryKeyValue::key() const { return part_of(packed, query_columns, shared_columns); }
Tensor QueryKeyValue::value() const {
  return part_of(packed, columns_before_value(), shared_columns);
}

Tensor KeyValue::key() const { return part_of(packed, 0, width); }
Tensor KeyValue::value() const { return part_of(packed, width, width); }

std::unique_ptr<AttentionMechanism> make_attention_mechanism(std::int64_t width, Random& init,
                                                             const MultiHeadOptions& options) {
  if (options.random_features)
    return std::make_unique<RandomFeatureMechanism>(width, init, options);
  return std::make_unique<SoftmaxMechanism>();
}

}  // namespace tapestry
