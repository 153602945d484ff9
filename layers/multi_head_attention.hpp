#pragma once

#include "autograd/restore.hpp"
#include "layers/attention_mechanism.hpp"
#include "layers/norm.hpp"

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

// Tokens attend to tokens of their own sequence, by H heads of D columns each, whose answers a
// projection joins (ibid., §3.2.2). Heads may share their keys and values with others (Ainslie et
// al. 2023, arXiv 2305.13245), and normalise queries and keys (Henry et al. 2020, arXiv 2010.04245)
// before these are turned by their positions. x (B, T, C) -> (B, T, C).
class SelfAttention final : public Module {
 public:
  MultiHeadOptions options;                  // with its number of shared heads and head width
  Linear output;                             // (C, H · D), drawn before the others
  Linear query_key_value;                    // ((H + 2 G) · D, C)
  std::optional<Norm> query_norm, key_norm;  // (D)
  std::unique_ptr<AttentionMechanism> mechanism;

  // Heads must divide the width unless head_width is given, be divided by those that they share,
  // and be of an even width for rotary positions, else std::invalid_argument.
  SelfAttention(std::int64_t width, Random& init, const MultiHeadOptions& wanted);

  // Queries, keys and values of x, whose first token stands at position `first`: of all examples
  // the same, or each one's own.
  QueryKeyValue project(const Tensor& x, const std::vector<std::int64_t>& firsts = {0}) const;
  // The same of tokens whose positions (B, T) int32 are given; empty: from 0 on.
  QueryKeyValue project(const Tensor& x, const Array& positions, Random* noise) const;

  // `noise`, here and below, is of the adapters' dropout; null: evaluate.
  Tensor forward(const Tensor& x, const AttentionOptions& call = {}, Random* noise = nullptr) const;

  // The same for tokens that follow those in the cache, which then holds them as well.
  std::unique_ptr<AttentionCache> make_cache(std::int64_t batch, std::int64_t capacity) const;
  Tensor forward(const Tensor& x, AttentionCache& cache, const AttentionOptions& call = {}) const;

  void fields(FieldVisitor& visit) override;

 private:
  QueryKeyValue project(const Tensor& x, RotaryOptions turn, Random* noise) const;
  AttentionOptions completed(AttentionOptions call) const;  // with this layer's heads and window
  Tensor normalised(const QueryKeyValue& qkv) const;
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
  KeyValue project(const Tensor& source, Random* noise = nullptr) const;
  Tensor attend(const Tensor& x, const KeyValue& source, AttentionOptions call = {},
                Random* noise = nullptr) const;

  void fields(FieldVisitor& visit) override;
};

// While one is in scope, each SelfAttention and CrossAttention of this thread leaves its weights in
// it, but not where it reads from a cache. Random features compute none: InputError.
class AttentionRecorder final {
 public:
  AttentionRecorder();

  struct Entry {
    std::string path;  // of the layer
    Array weights;     // (B, H, T, S)
  };
  std::vector<Entry> entries;

 private:
  Restore<AttentionRecorder*> current_;
};

}  // namespace tapestry
