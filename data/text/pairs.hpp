#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/special_tokens.hpp"

namespace tapestry {

// What is read and what it should become, in tokens, without <bos>, <eos> and <pad>.
struct TokenPair {
  std::vector<std::int32_t> source{};  // at least one token
  std::vector<std::int32_t> target{};
  std::string reference{};  // the target as it was written, where the pair is to be judged by it
  bool source_cut = false;  // the source lost tokens
};

// The tokens of the longest source and of the longest target, of some pairs.
struct LongestPair {
  std::int64_t source = 0, target = 0;
  void include(const TokenPair& pair);
};

// Returns what pair_batch() writes B such pairs into: padding, and targets that are ignored.
Batch padded_batch(std::int64_t B, const LongestPair& longest);

// At least one pair, as an encoder–decoder model reads them. All int32, S being the longest source
// and T the longest target and one more:
//   SourceTokens    (B, S)  the sources, then pad_token; the padding; the references
//   inputs          (B, T)  bos_token and the target, then pad_token
//   targets         (B, T)  the target and eos_token, then ignored_target
// count: the targets' tokens, eos_token among them.
Batch pair_batch(std::span<const TokenPair> pairs);

enum class Overlong {
  refuse,  // OptionError of "context" names the sentence's line
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
  // At least one pair. OptionError: one that is longer than context, where these are refused.
  PairDataset(std::vector<TokenPair> pairs, const PairOptions& options);

  std::int64_t size() const override { return std::ssize(pairs_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  std::vector<std::int64_t> lengths() const override;  // by the target's, then by the source's

  const std::vector<TokenPair>& pairs() const { return pairs_; }
  std::int64_t num_cut() const { return num_cut_; }  // sentences that lost tokens

 private:
  // Whether it had to be cut.
  bool fit(std::vector<std::int32_t>& tokens, std::int64_t limit, const std::string& place);

  std::vector<TokenPair> pairs_;
  Overlong overlong_;
  std::int64_t num_cut_ = 0;
};

}  // namespace tapestry
