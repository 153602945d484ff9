#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "autograd/ops/attention.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "autograd/ops/rotary.hpp"
#include "layers/linear.hpp"
#include "layers/positions.hpp"
#include "layers/random_features.hpp"

// What attention computes from queries, keys and values: the softmax, or its estimate by random
// features. Either has its own parameters and its own cache.
namespace tapestry {

// Of attention with several heads. Cross-attention has no use for positions and window, and knows
// neither other widths nor shared heads nor a norm of queries and keys.
struct MultiHeadOptions {
  std::int64_t heads = 4;                    // H; must divide the width C where head_width is 0
  std::int64_t key_value_heads = 0;          // G; H / G heads share one's keys and values; 0: H
  std::int64_t head_width = 0;               // D; 0: C / H
  Positions positions = Positions::learned;  // rotary: queries and keys are turned by theirs
  RotaryForm rotary{};
  std::optional<double> query_key_norm{};  // ε of an RMS norm of each head's queries and keys
  std::int64_t window = 0;  // a token sees the tokens less than so many steps away; 0: all
  std::optional<RandomFeaturesOptions> random_features{};  // none: softmax
  LinearOptions input{};                                   // to queries, keys and values
  LinearOptions output{};                                  // from the heads to the output
};

// Queries (B, T, H · D), keys and values (B, T, G · D) of one sequence, side by side.
struct QueryKeyValue {
  Tensor packed{};                  // (B, T, (H + 2 G) · D)
  std::int64_t query_columns = 0;   // H · D
  std::int64_t shared_columns = 0;  // G · D

  Tensor query() const;
  Tensor key() const;
  Tensor value() const;
  std::int64_t columns_before_value() const { return query_columns + shared_columns; }
};

// Keys and values (B, S, C) of a source, side by side.
struct KeyValue {
  Tensor packed{};         // (B, S, 2C)
  std::int64_t width = 0;  // C

  Tensor key() const;
  Tensor value() const;
};

// What an attention keeps of the tokens that each row has seen, so that a new token attends to them
// without computing them again. The softmax keeps keys and values, in memory that grows with the
// longest row; random features keep sums, whose size does not depend on the length. For inference:
// nothing is recorded through it.
class AttentionCache final {
 public:
  // Constructs an empty cache of keys and values: `extent` is (B, capacity, G · D).
  AttentionCache(const Shape& extent, DType dtype);
  // Constructs an empty cache of the sums of B rows.
  AttentionCache(std::int64_t batch, const LinearAttentionState& empty);

  // Return how many tokens each row has seen, and the longest row.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  std::int64_t length() const;

  // Row b becomes a copy of what row rows[b] was: in beam search one hypothesis may continue
  // several. There may be fewer rows than before, or more.
  void select(const std::vector<std::int64_t>& rows);

  // Copies the other's rows behind the own ones. Throws std::invalid_argument unless it is of the
  // same kind, capacity, widths and dtype.
  void append(const AttentionCache& other);

  // Keys and values (B, room, G · D), of which each row has filled as many as it has seen.
  struct KeysAndValues {
    Shape extent;  // (B, capacity, G · D)
    DType dtype;
    Array keys{}, values{};
  };
  // Return what is kept. Throw std::invalid_argument if it is of the other kind.
  const KeysAndValues& keys_and_values() const;
  LinearAttentionState& sums();

  void add(const QueryKeyValue& qkv);  // the keys and values of more tokens of each row
  void count(std::int64_t tokens);     // of each row, which were added to the sums

 private:
  struct Row;
  std::vector<Row> own_rows() const;
  void take(const std::vector<Row>& rows, std::int64_t tokens);

  std::vector<std::int64_t> lengths_;
  std::variant<KeysAndValues, LinearAttentionState> kept_;
};

using AttentionCaches = std::vector<std::unique_ptr<AttentionCache>>;  // one a layer

class AttentionMechanism {
 public:
  virtual ~AttentionMechanism() = default;

  // Self-attention: x (B, T, C) and what it was projected to -> (B, T, H · D).
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv,
                        const AttentionOptions& options) const = 0;

  // The same after the tokens in the cache, to which x's are appended. The cache must be of this
  // mechanism, of x's batch, width and dtype, and have room, else std::invalid_argument.
  virtual Tensor attend(const Tensor& x, const QueryKeyValue& qkv, AttentionCache& cache,
                        const AttentionOptions& options) const = 0;

  // Returns an empty cache for `extent` (B, capacity, G · D).
  virtual std::unique_ptr<AttentionCache> make_cache(const Shape& extent, DType dtype) const = 0;

  // Cross-attention: query (B, T, C), source (B, S, 2C) -> (B, T, C).
  virtual Tensor attend(const Tensor& query, const KeyValue& source,
                        const AttentionOptions& options) const = 0;

  // The weights (B, H, T, S) that queries give to keys. InputError where none are computed.
  virtual Array weights(const Tensor& query, const Tensor& key,
                        const AttentionOptions& options) const = 0;

  // The feature maps and the gate of random features; null if there are none.
  virtual const RandomFeatures* features() const { return nullptr; }
  virtual const Linear* gate() const { return nullptr; }

  // Its parameters, which are named as fields of the attention that owns it.
  virtual void fields(FieldVisitor&) {}
};

// Softmax knows causality, padding, windows, documents and masks. Random features know causality
// and padding, are linear in T and S (Peng et al. 2021, arXiv 2103.02143), in causal self-attention
// may have a gate, and share no heads. Of `options`, head_width is given.
std::unique_ptr<AttentionMechanism> make_attention_mechanism(std::int64_t width, Random& init,
                                                             const MultiHeadOptions& options);

}  // namespace tapestry
