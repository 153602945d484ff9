#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text.hpp"

namespace tapestry {

// The words of a file and the longest of them.
struct NameList {
  std::string path;
  std::vector<std::string> names;  // UTF-8, none empty
  std::int64_t longest;            // in characters
};

// Next-character prediction within words, such as first names, to learn to invent more of them.
// Token 0, a line's end, stands before a word and after it, as in makemore.
// A batch, T being its longest word and one more: inputs (B, T), 0 and the word, then 0; targets
// (B, T), the word and 0, then ignored_target; int32. count: the characters and one a word.
class NameDataset final : public Dataset {
 public:
  using Word = std::vector<std::int32_t>;  // its characters as tokens, without the 0s

  explicit NameDataset(std::vector<Word> words);  // at least one

  std::int64_t size() const override { return std::ssize(words_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  const Word& word(std::int64_t example) const;

 private:
  std::vector<Word> words_;
};

struct NameOptions {
  std::int64_t held_back = 1000;  // names to test with, but a tenth of them at most
  std::uint64_t seed = 0;         // chooses which
};

struct NameSplits {
  NameDataset train;
  NameDataset test;
};

// Reads a file (plain or gzip) of one word a line. White space around words and empty lines are
// dropped, as in makemore. So are no repeats, as there: how often a name is given is part of the
// data, but a held-back name may then also be trained on; `distinct` keeps the first of equals.
// InputError: not UTF-8, a word of over 256 characters, fewer than 10 words, above 1 GiB.
NameList load_names(const std::string& path, bool distinct = false);

// A line's end, token 0, and the characters of the words.
CharVocabulary name_vocabulary(const NameList& list);

// The words as tokens of such a vocabulary. InputError names one with a character it lacks.
NameSplits split_names(const NameList& list, const CharVocabulary& vocabulary,
                       const NameOptions& options = {});

}  // namespace tapestry
