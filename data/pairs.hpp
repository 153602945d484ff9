#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/special_tokens.hpp"

namespace tapestry {

// What is read and what it should become, in tokens, without <bos>, <eos> and <pad>.
struct TokenPair {
  std::vector<std::int32_t> source{};  // at least one token
  std::vector<std::int32_t> target{};
};

// At least one pair, as an encoder–decoder model reads them. All int32, S being the longest source
// and T the longest target and one more:
//   source          (B, S)  the sources, then pad_token
//   source_padding  (B, S)  1 where source is padded, else 0
//   inputs          (B, T)  bos_token and the target, then pad_token
//   targets         (B, T)  the target and eos_token, then ignored_target
// count: the targets' tokens, eos_token among them.
Batch pair_batch(std::span<const TokenPair> pairs);

enum class Overlong {
  refuse,  // InputError names the sentence's line
  cut,     // keep the first tokens; a cut target ends in eos_token all the same
};

struct PairOptions {
  std::int64_t context = 256;  // at most so many tokens in source, and in target with eos_token
  Overlong overlong = Overlong::refuse;
  std::string source_path = {};  // for messages, in which pair i is line i + 1
  std::string target_path = {};
};

// Translation: encoded pairs in memory, such as the lines of a ParallelText. Batches: pair_batch.
class PairDataset final : public Dataset {
 public:
  // At least one pair. InputError: one that is longer than context, where these are refused.
  PairDataset(std::vector<TokenPair> pairs, const PairOptions& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(pairs_.size()); }
  Batch batch(std::span<const std::int64_t> examples) const override;

  const std::vector<TokenPair>& pairs() const { return pairs_; }
  std::int64_t num_cut() const { return num_cut_; }  // sentences that lost tokens

 private:
  void fit(std::vector<std::int32_t>& tokens, std::int64_t limit, const std::string& place);

  std::vector<TokenPair> pairs_;
  Overlong overlong_;
  std::int64_t num_cut_ = 0;
};

struct LengthOrder {
  std::int64_t batch = 64;  // pairs in a batch
  std::int64_t pool = 100;  // batches sorted together: more saves padding, less mixes better
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

// An order to read pairs in, so that little of a batch is padding: a permutation whose runs of
// `batch` pairs, from the first on, have similar lengths. The pairs are shuffled and dealt into
// pools; each pool is sorted by length and cut into batches, and the batches of all pools are
// shuffled (the incomplete one stays last). It depends on the lengths and the options alone, and a
// dataset's batch still on its examples alone: the order says only which are asked for together.
std::vector<std::int64_t> order_by_length(std::span<const TokenPair> pairs,
                                          const LengthOrder& options);

}  // namespace tapestry
