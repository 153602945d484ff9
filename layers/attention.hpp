#pragma once

#include "layers/attention_mechanism.hpp"

namespace tapestry {

// One head: softmax(Q Kᵀ / √D + M) V with Q = query(x), K = key(source), V = value(source)
// (Vaswani et al. 2017, arXiv 1706.03762, eq. 1). x (B, T, C), source (B, S, C') -> (B, T, D).
class Attention final : public Module {
 public:
  Linear query, key, value;

  Attention(std::int64_t width, std::int64_t source_width, std::int64_t head_width, Random& init,
            const LinearOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& source, AttentionOptions options = {}) const;
  void fields(FieldVisitor& visit) override;
};

// Tokens attend to tokens of their own sequence, by H heads of C / H columns each, whose answers a
// projection joins (ibid., §3.2.2). x (B, T, C) -> (B, T, C).
class SelfAttention final : public Module {
 public:
  MultiHeadOptions options;
  Linear output;           // (C, C), drawn before the others
  Linear query_key_value;  // (3C, C)
  std::unique_ptr<AttentionMechanism> mechanism;

  // heads must divide width, and leave an even head width for rotary positions, else
  // std::invalid_argument.
  SelfAttention(std::int64_t width, Random& init, const MultiHeadOptions& wanted);

  // Queries, keys and values of x, whose first token stands at position `first`.
  QueryKeyValue project(const Tensor& x, std::int64_t first = 0) const;

  Tensor forward(const Tensor& x, const AttentionOptions& call = {}) const;

  // The same for tokens that follow those in the cache, which then holds them as well.
  std::unique_ptr<AttentionCache> make_cache(std::int64_t batch, std::int64_t capacity) const;
  Tensor forward(const Tensor& x, AttentionCache& cache, const AttentionOptions& call = {}) const;

  void fields(FieldVisitor& visit) override;

 private:
  AttentionOptions completed(AttentionOptions call) const;  // with this layer's heads and window
};

// The same, but tokens attend to those of another sequence.
// x (B, T, C), source (B, S, C') -> (B, T, C).
class CrossAttention final : public Module {
 public:
  MultiHeadOptions options;
  Linear output;     // (C, C), drawn before the others
  Linear query;      // (C, C)
  Linear key_value;  // (2C, C')
  std::unique_ptr<AttentionMechanism> mechanism;

  // heads must divide width, and random features have no gate, else std::invalid_argument.
  CrossAttention(std::int64_t width, std::int64_t source_width, Random& init,
                 const MultiHeadOptions& wanted);

  Tensor forward(const Tensor& x, const Tensor& source, const AttentionOptions& call = {}) const;

  // In two steps, for a source that is attended to many times.
  KeyValue project(const Tensor& source) const;
  Tensor attend(const Tensor& x, const KeyValue& source, AttentionOptions call = {}) const;

  void fields(FieldVisitor& visit) override;
};

// While one is in scope, each SelfAttention and CrossAttention of this thread leaves its weights in
// it, but not where it reads from a cache. Random features compute none: InputError.
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

}  // namespace tapestry
