#pragma once

#include <memory>
#include <optional>

#include "autograd/ops/attention.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "layers/linear.hpp"
#include "layers/positions.hpp"
#include "layers/random_features.hpp"

// What attention computes from queries, keys and values: the softmax, or its estimate by random
// features. Either has its own parameters and its own cache.
namespace tapestry {

// Of attention with several heads. Cross-attention has no use for positions and window.
struct MultiHeadOptions {
  std::int64_t heads = 4;                    // H; must divide the width
  Positions positions = Positions::learned;  // rotary: queries and keys are turned by theirs
  std::int64_t window = 0;  // a token sees the tokens less than so many steps away; 0: all
  std::optional<RandomFeaturesOptions> random_features{};  // none: softmax
  LinearOptions input{};                                   // to queries, keys and values
  LinearOptions output{};                                  // from the heads to the output
};

// Queries, keys and values (B, T, C) of one sequence, side by side.
struct QueryKeyValue {
  Tensor packed{};         // (B, T, 3C)
  std::int64_t width = 0;  // C

  Tensor query() const;
  Tensor key() const;
  Tensor value() const;
  std::int64_t columns_before_value() const { return 2 * width; }
};

// Keys and values (B, S, C) of a source, side by side.
struct KeyValue {
  Tensor packed{};         // (B, S, 2C)
  std::int64_t width = 0;  // C

  Tensor key() const;
  Tensor value() const;
};

// What an attention keeps of the tokens it has seen, so that a new token attends to them without
// their being computed again. For inference: nothing is recorded through it.
class AttentionCache {
 public:
  virtual ~AttentionCache() = default;

  virtual std::int64_t length() const = 0;  // how many tokens it has seen

  // Row b becomes a copy of what row rows[b] was: in beam search one hypothesis may continue
  // several.
  virtual void select(const std::vector<std::int64_t>& rows) = 0;
};

using AttentionCaches = std::vector<std::unique_ptr<AttentionCache>>;  // one a layer

class AttentionMechanism {
 public:
  virtual ~AttentionMechanism() = default;

  // Self-attention: x (B, T, C) and what it was projected to -> (B, T, C).
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv,
                        const AttentionOptions& options) const = 0;

  // The same after the tokens in the cache, to which x's are appended. The cache must be of this
  // mechanism, of x's batch, width and dtype, and have room, else std::invalid_argument.
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                        const AttentionOptions& options) const = 0;

  // An empty cache for `extent` (B, capacity, C): the softmax keeps keys and values, random
  // features sums whose size does not depend on the capacity.
  virtual std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const = 0;

  // Cross-attention: query (B, T, C), source (B, S, 2C) -> (B, T, C).
  virtual Tensor attend(const Tensor& query, const KeyValue& source,
                        const AttentionOptions& options) const = 0;

  // The weights (B, H, T, S) that queries give to keys. InputError where none are computed.
  virtual Array weights(const Tensor& query, const Tensor& key,
                        const AttentionOptions& options) const = 0;

  // Its parameters, which are named as fields of the attention that owns it.
  virtual void fields(FieldVisitor&) {}
};

// Softmax knows causality, padding, windows and masks. Random features know causality and padding,
// are linear in T and S (Peng et al. 2021, arXiv 2103.02143), and in causal self-attention may have
// a gate. The heads must divide the width.
std::unique_ptr<AttentionMechanism> make_attention_mechanism(std::int64_t width, Random& init,
                                                             const MultiHeadOptions& options);

}  // namespace tapestry
