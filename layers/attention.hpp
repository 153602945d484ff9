#pragma once

#include <optional>

#include "autograd/ops/attention.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "layers/linear.hpp"
#include "layers/random_features.hpp"

namespace tapestry {

// One head: softmax(Q Kᵀ / √D + M) V with Q = query(x), K = key(source), V = value(source).
// x (B, T, C), source (B, S, C') -> (B, T, D).
class Attention final : public Module {
 public:
  Linear query, key, value;

  Attention(std::int64_t width, std::int64_t source_width, std::int64_t head_width, Random& init,
            const LinearOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& source, AttentionOptions options = {}) const;
  void fields(FieldVisitor& visit) override;
};

// Keys and values of the tokens seen so far, so that a new token attends to them without their
// being computed again, or under random features the sums that stand for them, however many they
// are. For inference: nothing is recorded through it.
struct KeyValueCache {
  KeyValueCache(std::int64_t batch, std::int64_t capacity, std::int64_t width, DType dtype)
      : keys({batch, capacity, width}, dtype), values({batch, capacity, width}, dtype) {}
  explicit KeyValueCache(const LinearAttentionState& empty) : sums(empty) {}

  Array keys, values;                        // (B, capacity, C); empty with sums
  std::optional<LinearAttentionState> sums;  // of random features
  std::int64_t length = 0;                   // how many tokens it has seen

  // Row b becomes what row rows[b] was: a beam goes on from another.
  void select(const std::vector<std::int64_t>& rows);
};

// While one is in scope, every MultiHeadAttention of this thread leaves its weights in it, but with
// random features, which compute none, throws InputError.
class AttentionRecorder {
 public:
  AttentionRecorder();
  ~AttentionRecorder();
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  struct Entry {
    std::string path;  // of the layer
    Array weights;     // (B, H, T, S)
  };
  std::vector<Entry> entries;

 private:
  AttentionRecorder* outer_;
};

// `heads` heads of C / heads columns each and an output projection (Vaswani et al. 2017, §3.2.2).
// Self-attention: x (B, T, C) -> (B, T, C), with one projection to queries, keys and values.
// Cross-attention: x (B, T, C), source (B, S, C') -> (B, T, C).
// With random features both are linear in T and S (Peng et al. 2021, arXiv 2103.02143), know
// causality and padding, but no window and no mask, and causal self-attention may have a gate.
class MultiHeadAttention final : public Module {
 public:
  std::optional<Linear> query_key_value;  // self: (3C, C)
  std::optional<Linear> query;            // cross: (C, C)
  std::optional<Linear> key_value;        // cross: (2C, C')
  std::optional<RandomFeatures> features;
  std::optional<Linear> gate;  // (H, C), with features
  Linear output;
  std::int64_t heads;
  bool rotary_positions;

  struct Options {
    std::int64_t source_width = 0;  // C' of cross-attention; 0: self-attention
    LinearOptions input, output;
    bool rotary_positions = false;  // self-attention turns queries and keys by their positions
    std::optional<RandomFeaturesOptions> random_features{};  // none: the softmax itself
  };
  // heads must divide width, and leave an even head width for rotary positions, which
  // cross-attention has as little as a gate, else std::invalid_argument.
  MultiHeadAttention(std::int64_t width, std::int64_t heads, Random& init, const Options& options);
  MultiHeadAttention(std::int64_t width, std::int64_t num_heads, Random& init)
      : MultiHeadAttention(width, num_heads, init, Options()) {}

  Tensor forward(const Tensor& x, AttentionOptions options = {}) const;
  Tensor forward(const Tensor& x, const Tensor& source, AttentionOptions options = {}) const;

  // Cross-attention in two steps, for a source that is attended to many times.
  Tensor project_source(const Tensor& source) const;  // (B, S, C') -> keys and values (B, S, 2C)
  Tensor attend(const Tensor& x, const Tensor& projected, AttentionOptions options = {}) const;

  // Appends x's keys and values to the cache, then attends to all of it. The cache must be of this
  // layer's kind, of x's batch, width and dtype, and have room, else std::invalid_argument.
  Tensor forward(const Tensor& x, KeyValueCache& cache, AttentionOptions options = {}) const;
  KeyValueCache make_cache(std::int64_t batch, std::int64_t capacity) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor project(const Tensor& x, std::int64_t first) const;  // (B, T, C) -> (B, T, 3C)
  Tensor attend_by_features(const Tensor& x, const Tensor& qkv, const AttentionOptions& options,
                            LinearAttentionState* state = nullptr) const;
  Tensor attend_by_features(const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& gate_logits, const AttentionOptions& options,
                            LinearAttentionState* state = nullptr) const;
};

}  // namespace tapestry
