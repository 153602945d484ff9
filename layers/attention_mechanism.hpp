#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "autograd/ops/attention.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "autograd/ops/rotary.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "layers/random_features.hpp"

// The mechanisms of attention, which compute the result from queries, keys and values: softmax, or
// its estimate by random features. Each has its own parameters and its own cache.
namespace tapestry {

// The options of multi-head attention. Cross-attention ignores positions and window, and does not
// support key_value_heads, head_width and query_key_norm.
struct MultiHeadOptions {
  std::int64_t heads = 4;                    // H; divides the width C if head_width is 0
  std::int64_t key_value_heads = 0;          // G; H / G heads share keys and values; 0: H
  std::int64_t head_width = 0;               // D; 0: C / H
  Positions positions = Positions::learned;  // rotary: rotates queries and keys
  RotaryForm rotary{};
  std::optional<double> query_key_norm{};  // ε of an RMS norm of each head's queries and keys
  std::int64_t window = 0;                 // attends to tokens closer than this; 0: to all
  std::optional<RandomFeaturesOptions> random_features{};  // none: softmax
  LinearOptions input{};   // initialization of the query, key and value maps
  LinearOptions output{};  // initialization of the output map
};

// The queries (B, T, H · D), keys and values (B, T, G · D) of a sequence, packed side by side.
struct QueryKeyValue {
  Tensor packed{};                  // (B, T, (H + 2 G) · D)
  std::int64_t query_columns = 0;   // H · D
  std::int64_t shared_columns = 0;  // G · D

  Tensor query() const;
  Tensor key() const;
  Tensor value() const;
  std::int64_t columns_before_value() const { return query_columns + shared_columns; }
};

// The keys and values (B, S, C) of a source, packed side by side.
struct KeyValue {
  Tensor packed{};         // (B, S, 2C)
  std::int64_t width = 0;  // C

  Tensor key() const;
  Tensor value() const;
};

// A cache of what new tokens need to attend to the earlier tokens of each row. Softmax attention
// stores keys and values, in memory that grows with the longest row; random features store sums,
// whose size does not depend on the length. For inference only: no gradient passes through it.
class AttentionCache final {
 public:
  // Constructs an empty cache of keys and values: `extent` is (B, capacity, G · D).
  AttentionCache(const Shape& extent, DType dtype);
  // Constructs an empty cache of the sums of B rows.
  AttentionCache(std::int64_t batch, const LinearAttentionState& empty);

  // Return the number of tokens of each row, and the largest of them.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  std::int64_t length() const;

  // Replaces row b by row rows[b], for beam search. The number of rows may change. Throws
  // std::invalid_argument for a row that does not exist.
  void select(const std::vector<std::int64_t>& rows);

  // Appends the rows of other caches, and copies each row once. Throws std::invalid_argument unless
  // they have the same kind, capacity, width and dtype.
  void append(const std::vector<const AttentionCache*>& others);

  // Keys and values (B, space, G · D), of which lengths() are used in each row.
  struct KeysAndValues {
    Shape extent;  // (B, capacity, G · D)
    DType dtype;
    Array keys{}, values{};
  };
  // Return the content. Throw std::invalid_argument for a cache of the other kind.
  const KeysAndValues& keys_and_values() const;
  LinearAttentionState& sums();

  void add(const QueryKeyValue& qkv);  // appends keys and values to each row
  void count(std::int64_t tokens);     // adds to the lengths, after tokens were added to sums()

 private:
  struct Row;
  std::vector<Row> own_rows() const;
  void take(const std::vector<Row>& rows, std::int64_t tokens);

  std::vector<std::int64_t> lengths_;
  std::variant<KeysAndValues, LinearAttentionState> kept_;
};

using AttentionCaches = std::vector<std::unique_ptr<AttentionCache>>;  // one cache per layer

// A computation of attention from queries, keys and values. Its functions throw
// std::invalid_argument for options that the mechanism does not support.
class AttentionMechanism {
 public:
  virtual ~AttentionMechanism() = default;

  // Returns self-attention: x (B, T, C) and its projections -> (B, T, H · D).
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv,
                        const AttentionOptions& options) const = 0;

  // Returns self-attention to the tokens of the cache and those of x, and appends x to the cache.
  // Throws std::invalid_argument unless the cache is of this mechanism, fits x's batch, width and
  // dtype, and has space.
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                        const AttentionOptions& options) const = 0;

  // Returns an empty cache for `extent` (B, capacity, G · D).
  virtual std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const = 0;

  // Returns cross-attention: query (B, T, C), source (B, S, 2C) -> (B, T, C).
  virtual Tensor attend(const Tensor& query, const KeyValue& source,
                        const AttentionOptions& options) const = 0;

  // Returns the attention weights (B, H, T, S). Throws InputError if the mechanism has none.
  virtual Array weights(const Tensor& query, const Tensor& key,
                        const AttentionOptions& options) const = 0;

  // Return the feature maps and the gate of random features, or null.
  virtual const RandomFeatures* features() const { return nullptr; }
  virtual const Linear* gate() const { return nullptr; }

  // Visits the parameters, as fields of the attention module that owns the mechanism.
  virtual void fields(FieldVisitor&) {}
};

// Returns the mechanism that the options choose; head_width must be set. Softmax supports
// causality, padding, windows, documents and masks. Random features (Peng et al. 2021, arXiv
// 2103.02143) are linear in T and S, and support causality, padding and a gate in causal
// self-attention. Throws std::invalid_argument for random features with shared keys and values.
std::unique_ptr<AttentionMechanism> make_attention_mechanism(std::int64_t width, Random& init,
                                                             const MultiHeadOptions& options);

}  // namespace tapestry
