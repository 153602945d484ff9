#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/tokenizer.hpp"

namespace tapestry {

// Sentences and their translations: sources[i] and targets[i] are line i + 1 of two files.
struct ParallelText {
  std::string source_path{};
  std::string target_path{};
  std::vector<std::string> sources{};  // UTF-8, none empty, at least one, as many as targets
  std::vector<std::string> targets{};
};

// Reads two files, plain or gzip, with one sentence per line. Removes a byte order mark and a
// carriage return at the end of a line, and keeps white space. Throws InputError with file and line
// for text that is not UTF-8, a line of white space only, different numbers of lines, empty files,
// and files above 1 GiB.
ParallelText load_parallel_text(const std::string& source_path, const std::string& target_path);

// The split and the languages to read.
struct ParallelFiles {
  std::string split = "train";
  std::string source = "de";
  std::string target = "en";
};

// Returns the languages of the files in a folder that are named <split>*.<language>, plain or .gz,
// with the same name in two languages or more: de, pt-BR, zh_cn, deu_Latn, src and tgt.
std::set<std::string> parallel_languages(const std::string& folder, const std::string& split);

// Describes the files that load_parallel_text reads.
inline constexpr const char* parallel_files =
    "a folder with one file of sentences per split and language";

// Reads the two files of a folder that are named <split>.<language>, or the only ones named
// <split>*.<language>, such as test_2016_flickr.de, plain or .gz. Throws OptionError of "split" if
// there are none or several for the source, and InputError if the file of the target is missing,
// and as above.
ParallelText load_parallel_text(const std::string& path, const ParallelFiles& files);

// Reads all files of a folder that end with the two languages, in the order of their names, or, if
// the path is a file of the source, this file and its translation; `split` is not used. The paths
// are those of the first files. Throws InputError if there are none, and as above.
ParallelText load_all_parallel_text(const std::string& path, const ParallelFiles& files);

// A sentence and its translation in tokens, without <bos>, <eos> and <pad>.
struct TokenPair {
  std::vector<std::int32_t> source{};  // at least one token
  std::vector<std::int32_t> target{};
  std::string reference{};  // the target's text, if predictions are compared with it
  bool source_cut = false;  // the source was truncated
};

// The numbers of tokens of the longest source and of the longest target of some pairs.
struct LongestPair {
  std::int64_t source = 0, target = 0;
  void include(const TokenPair& pair);
};

// Returns a batch of B pairs of this length that has only padding and ignored targets.
Batch padded_batch(std::int64_t B, const LongestPair& longest);

// Returns the batch of pairs for an encoder–decoder model. Throws std::invalid_argument without
// pairs, and for an empty source. All is int32, S is the length of the longest source, and T that
// of the longest target plus 1:
//   SourceTokens    (B, S)  the sources, then pad_token; the padding; the references
//   inputs          (B, T)  bos_token and the target, then pad_token
//   targets         (B, T)  the target and eos_token, then ignored_target
// count: the number of tokens of the targets, including eos_token.
Batch pair_batch(std::span<const TokenPair> pairs);

enum class Overlong {
  refuse,  // throw OptionError of "context" with the line of the sentence
  cut,     // keep the first tokens; a truncated target still ends in eos_token
};

struct PairOptions {
  std::int64_t context = 256;  // the most tokens of a source, and of a target with eos_token
  Overlong overlong = Overlong::refuse;
  std::string source_path = {};  // path for messages; pair i is line i + 1
  std::string target_path = {};
};

// A data set for translation: encoded pairs in memory, such as the lines of a ParallelText. Batches
// are those of pair_batch().
class PairDataset final : public Dataset {
 public:
  // Throws OptionError of "context" for a pair that is longer than the context, if these are
  // refused; std::invalid_argument without pairs, for an empty source and a context below 2.
  PairDataset(std::vector<TokenPair> pairs, const PairOptions& options);

  std::int64_t size() const override { return std::ssize(pairs_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool add_examples_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }
  std::vector<std::int64_t> lengths() const override;  // ordered by target, then by source

  const std::vector<TokenPair>& pairs() const { return pairs_; }
  std::int64_t num_cut() const { return num_cut_; }  // the number of truncated sentences

 private:
  // Returns whether the tokens were truncated. Throws OptionError of "context" if they must not be.
  bool fit(std::vector<std::int32_t>& tokens, std::int64_t limit, const std::string& place);

  std::vector<TokenPair> pairs_;
  Overlong overlong_;
  std::int64_t num_cut_ = 0;
};

}  // namespace tapestry
