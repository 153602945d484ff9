#include "layers/attention_mechanism.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "autograd/check.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/parallel.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns the columns [begin, begin + width) of packed (B, T, columns), as (B, T, width).
Tensor part_of(const Tensor& packed, std::int64_t begin, std::int64_t width) {
  return slice(packed, -1, begin, begin + width);
}

// Returns x (B, T, C) as (B, H, T, D).
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

// Copies columns of `from` (B, T, columns), from `begin` on, to the rows of `to` (B, space, C),
// from row firsts[b] of example b on.
void write_rows(const Array& from, std::int64_t begin, const std::vector<std::int64_t>& firsts,
                Array& to) {
  const std::int64_t T = from.dim(1), element = size_of(from.dtype());
  const std::int64_t from_row = from.dim(2) * element, row = to.dim(2) * element;
  for (std::int64_t b = 0; b < from.dim(0); ++b)
    for (std::int64_t t = 0; t < T; ++t)
      std::memcpy(to.mutable_raw() + (b * to.dim(1) + firsts[b] + t) * row,
                  from.raw() + (b * T + t) * from_row + begin * element, row);
}

// Returns the space to reserve for `tokens` tokens, at most the capacity. It doubles, so that
// copying takes no longer than writing the tokens did.
std::int64_t room_for(std::int64_t tokens, std::int64_t capacity) {
  constexpr std::uint64_t least = 64;
  if (tokens == 0) return 0;
  const std::uint64_t doubled = std::bit_ceil(std::max<std::uint64_t>(tokens, least));
  return std::min(capacity, static_cast<std::int64_t>(doubled));
}

// Returns the options with the numbers of tokens in the cache's rows: `keys`, and key_counts if
// they differ.
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
    const AttentionCache::KeysAndValues& seen = cache.keys_and_values();
    const Shape& extent = seen.extent;
    require(x.rank() == 3 && x.dim(0) == extent[0] && cache.length() + x.dim(1) <= extent[1] &&
                qkv.shared_columns == extent[2] && x.dtype() == seen.dtype,
            "multi-head attention: x {} after {} tokens does not fit a cache of {} {}; expected "
            "a cache (B, capacity, G · D) with space for x",
            x.value(), cache.length(), seen.dtype, extent);
    cache.add(qkv);
    return scaled_dot_product_attention(qkv.query(), seen.keys, seen.values,
                                        to_seen_keys(options, cache));
  }

  std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const override {
    return std::make_unique<AttentionCache>(extent, dtype);
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

// Sets biases from 1 to 5, or 3 for one head, so that heads start to forget after 1 / (1 - σ(bias))
// = 4 to 150 steps.
void start_remembering(Linear& gate) {
  const std::int64_t H = gate.weight.tensor.dim(0);
  Array bias = gate.bias.value();
  for (std::int64_t h = 0; h < H; ++h)
    bias.mutable_values<float>()[h] =
        H == 1 ? 3.0f : 1.0f + 4.0f * static_cast<float>(h) / static_cast<float>(H - 1);
}

class RandomFeatureMechanism final : public AttentionMechanism {
 public:
  RandomFeatureMechanism(std::int64_t width, Random& init, const MultiHeadOptions& options)
      : heads_(options.heads),
        features_(heads_, options.head_width, init, *options.random_features) {
    require(
        options.key_value_heads == heads_,
        "multi-head attention: {} key-value heads for {} heads; random features need equally many",
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
    const Tensor y = combine(operands(x, qkv), options, &cache.sums());
    cache.count(x.dim(1));
    return y;
  }

  std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const override {
    return std::make_unique<AttentionCache>(
        extent[0],
        LinearAttentionState(extent[0], heads_, features_.width(), extent[2] / heads_, dtype));
  }

  Tensor attend(const Tensor& query, const KeyValue& source,
                const AttentionOptions& options) const override {
    return combine({.query = query, .key = source.key(), .value = source.value()}, options);
  }

  Array weights(const Tensor&, const Tensor&, const AttentionOptions&) const override {
    throw InputError(
        "multi-head attention: random features compute no attention weights; use a model with "
        "softmax attention");
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
                options.document_starts.empty() && options.key_counts.empty(),
            "multi-head attention: random features support no mask, window, document_starts, keys "
            "or key_counts; leave them unset, or use softmax");
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

// --- the cache ---

// A row of a cache of keys and values.
struct AttentionCache::Row {
  const AttentionCache* of;
  std::int64_t index;

  std::int64_t length() const { return of->lengths_[index]; }
};

AttentionCache::AttentionCache(const Shape& extent, DType dtype)
    : lengths_(extent[0], 0), kept_(KeysAndValues{.extent = extent, .dtype = dtype}) {
  take(own_rows(), 0);
}

AttentionCache::AttentionCache(std::int64_t batch, const LinearAttentionState& empty)
    : lengths_(batch, 0), kept_(empty) {}

std::int64_t AttentionCache::length() const {
  return lengths_.empty() ? 0 : std::ranges::max(lengths_);
}

void AttentionCache::count(std::int64_t tokens) {
  for (std::int64_t& length : lengths_) length += tokens;
}

const AttentionCache::KeysAndValues& AttentionCache::keys_and_values() const {
  const auto* kept = std::get_if<KeysAndValues>(&kept_);
  require(kept != nullptr,
          "multi-head attention: the cache contains sums; expected keys and values of softmax "
          "attention");
  return *kept;
}

LinearAttentionState& AttentionCache::sums() {
  auto* kept = std::get_if<LinearAttentionState>(&kept_);
  require(
      kept != nullptr,
      "multi-head attention: the cache contains keys and values; expected sums of random features");
  return *kept;
}

void AttentionCache::add(const QueryKeyValue& qkv) {
  auto& [extent, dtype, keys, values] = std::get<KeysAndValues>(kept_);
  const Array& packed = qkv.packed.value();
  const std::int64_t tokens = length() + packed.dim(1);
  if (tokens > keys.dim(1)) take(own_rows(), tokens);
  write_rows(packed, qkv.query_columns, lengths_, keys);
  write_rows(packed, qkv.columns_before_value(), lengths_, values);
  count(packed.dim(1));
}

std::vector<AttentionCache::Row> AttentionCache::own_rows() const {
  std::vector<Row> rows;
  for (std::int64_t b = 0; b < std::ssize(lengths_); ++b) rows.push_back({this, b});
  return rows;
}

// Replaces the content by copies of the rows, with space for `tokens` tokens each.
void AttentionCache::take(const std::vector<Row>& rows, std::int64_t tokens) {
  auto& kept = std::get<KeysAndValues>(kept_);
  kept.extent[0] = std::ssize(rows);
  const std::int64_t room = room_for(tokens, kept.extent[1]);
  const std::int64_t row = kept.extent[2] * size_of(kept.dtype);
  const std::int64_t grain = (1 << 16) / std::max<std::int64_t>(1, tokens * row) + 1;
  for (Array KeysAndValues::*part : {&KeysAndValues::keys, &KeysAndValues::values}) {
    Array all({std::ssize(rows), room, kept.extent[2]}, kept.dtype);
    parallel_for(std::ssize(rows), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        if (rows[b].length() == 0) continue;
        const Array& from = rows[b].of->keys_and_values().*part;
        std::memcpy(all.mutable_raw() + b * room * row,
                    from.raw() + rows[b].index * from.dim(1) * row, rows[b].length() * row);
      }
    });
    kept.*part = all;
  }
}

void AttentionCache::select(const std::vector<std::int64_t>& indices) {
  std::vector<Row> rows;
  std::vector<std::int64_t> selected;
  for (const std::int64_t index : indices) {
    require(index >= 0 && index < std::ssize(lengths_),
            "multi-head attention: cache row {}; expected 0 to {}", index,
            std::ssize(lengths_) - 1);
    rows.push_back({this, index});
    selected.push_back(lengths_[index]);
  }
  if (auto* sums = std::get_if<LinearAttentionState>(&kept_))
    sums->select(indices);
  else
    take(rows, selected.empty() ? 0 : std::ranges::max(selected));
  lengths_ = std::move(selected);
}

void AttentionCache::append(const std::vector<const AttentionCache*>& others) {
  for (const AttentionCache* other : others)
    require(kept_.index() == other->kept_.index(),
            "multi-head attention: a cache of keys and values and a cache of sums cannot be "
            "joined; expected caches of one kind");
  if (auto* sums = std::get_if<LinearAttentionState>(&kept_)) {
    const NoTape no_tape;
    for (Array LinearAttentionState::*part :
         {&LinearAttentionState::sums, &LinearAttentionState::log_units,
          &LinearAttentionState::weights}) {
      std::vector<Tensor> all = {sums->*part};
      for (const AttentionCache* other : others)
        all.emplace_back(std::get<LinearAttentionState>(other->kept_).*part);
      sums->*part = concat(all, 0).value();
    }
  } else {
    const KeysAndValues& own = keys_and_values();
    std::vector<Row> rows = own_rows();
    std::int64_t tokens = length();
    for (const AttentionCache* other : others) {
      const KeysAndValues& more = other->keys_and_values();
      require(own.extent[1] == more.extent[1] && own.extent[2] == more.extent[2] &&
                  own.dtype == more.dtype,
              "multi-head attention: caches of {} {} and {} {} cannot be joined; expected equal "
              "dtype, capacity and width",
              own.dtype, own.extent, more.dtype, more.extent);
      std::ranges::copy(other->own_rows(), std::back_inserter(rows));
      tokens = std::max(tokens, other->length());
    }
    take(rows, tokens);
  }
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
