#pragma once

#include "autograd/restore.hpp"
#include "layers/attention_mechanism.hpp"
#include "layers/norm.hpp"

namespace tapestry {

// Attention with one head: softmax(Q Kᵀ / √D + M) V with Q = query(x), K = key(source), V =
// value(source) (Vaswani et al. 2017, arXiv 1706.03762, eq. 1). x (B, T, C), source (B, S, C') ->
// (B, T, D).
class Attention final : public Module {
 public:
  Linear query, key, value;

  Attention(std::int64_t width, std::int64_t source_width, std::int64_t head_width, Random& init,
            const LinearOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& source, AttentionOptions options = {}) const;
  void fields(FieldVisitor& visit) override;
};

// Multi-head self-attention: H heads of width D, whose results a linear map joins (ibid., §3.2.2),
// x (B, T, C) -> (B, T, C). Heads may share keys and values (Ainslie et al. 2023, arXiv 2305.13245)
// and normalize queries and keys (Henry et al. 2020, arXiv 2010.04245) before rotary positions.
class SelfAttention final : public Module {
 public:
  MultiHeadOptions options;                  // key_value_heads and head_width are set
  Linear output;                             // (C, H · D), drawn before the others
  Linear query_key_value;                    // ((H + 2 G) · D, C)
  std::optional<Norm> query_norm, key_norm;  // (D)
  std::unique_ptr<AttentionMechanism> mechanism;

  // Throws std::invalid_argument unless the heads divide the width or head_width is set,
  // key_value_heads divides the heads, or equals them for random features, and the head width is
  // even for rotary positions.
  SelfAttention(std::int64_t width, Random& init, const MultiHeadOptions& wanted);

  // Returns the queries, keys and values of x, whose first tokens have the positions `firsts`: one
  // for all examples, or one for each.
  QueryKeyValue project(const Tensor& x, const std::vector<std::int64_t>& firsts = {0}) const;
  // Returns queries, keys and values for tokens with positions (B, T) int32; empty: 0, 1, …
  QueryKeyValue project(const Tensor& x, const Array& positions, Random* noise) const;

  // Returns (B, T, C). `noise`, here and below, is for the dropout of adapters; null: evaluation.
  Tensor forward(const Tensor& x, const AttentionOptions& call = {}, Random* noise = nullptr) const;

  // Return an empty cache, and the attention of tokens x that follow those in the cache, to which x
  // is appended. Throws std::invalid_argument for a cache that does not fit x.
  std::unique_ptr<AttentionCache> make_cache(std::int64_t batch, std::int64_t capacity) const;
  Tensor forward(const Tensor& x, AttentionCache& cache, const AttentionOptions& call = {}) const;

  void fields(FieldVisitor& visit) override;

 private:
  QueryKeyValue project(const Tensor& x, RotaryOptions turn, Random* noise) const;
  AttentionOptions completed(AttentionOptions call) const;  // adds the heads and the window
  Tensor normalized(const QueryKeyValue& qkv) const;
};

// Multi-head cross-attention, to the tokens of another sequence: x (B, T, C), source (B, S, C') ->
// (B, T, C).
class CrossAttention final : public Module {
 public:
  MultiHeadOptions options;
  Linear output;     // (C, C), drawn before the others
  Linear query;      // (C, C)
  Linear key_value;  // (2C, C')
  std::unique_ptr<AttentionMechanism> mechanism;

  // Throws std::invalid_argument unless the heads divide the width, and for options that
  // cross-attention does not support.
  CrossAttention(std::int64_t width, std::int64_t source_width, Random& init,
                 const MultiHeadOptions& wanted);

  Tensor forward(const Tensor& x, const Tensor& source, const AttentionOptions& call = {}) const;

  // Compute forward() in two steps, for a source that is used many times: source (B, S, C') -> keys
  // and values (B, S, 2C), and x (B, T, C) -> (B, T, C).
  KeyValue project(const Tensor& source, Random* noise = nullptr) const;
  Tensor attend(const Tensor& x, const KeyValue& source, AttentionOptions call = {},
                Random* noise = nullptr) const;

  void fields(FieldVisitor& visit) override;
};

// A recorder of the weights of each SelfAttention and CrossAttention of this thread while it is in
// scope, except for calls with a cache. Attention by random features throws InputError.
class AttentionRecorder final {
 public:
  AttentionRecorder();

  struct Entry {
    std::string path;  // path of the layer
    Array weights;     // (B, H, T, S)
  };
  std::vector<Entry> entries;

 private:
  Restore<AttentionRecorder*> current_;
};

}  // namespace tapestry
