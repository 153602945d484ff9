#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text.hpp"

namespace tapestry {

// The words of a file and the longest of them.
struct NameList {
  std::string path{};
  std::vector<std::string> names{};  // UTF-8, none empty
  std::int64_t longest = 0;          // in characters
};

// Next-character prediction within words, such as first names, to learn to invent more of them.
// Token 0, a line's end, stands before a word and after it, as in makemore. A batch, whose T is the
// length of its longest word plus 1, is int32:
//   inputs   (B, T)  0 and the word, then 0 up to the end of the row
//   targets  (B, T)  the word and 0, then ignored_target
// count: the targets that are not ignored, so each word's characters and the 0 after them.
class NameDataset final : public Dataset {
 public:
  using Word = std::vector<std::int32_t>;  // its characters as tokens, without the 0s

  explicit NameDataset(std::vector<Word> words);  // at least one

  std::int64_t size() const override { return std::ssize(words_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  const Word& word(std::int64_t example) const;

 private:
  std::vector<Word> words_;
};

struct NameOptions {
  std::int64_t held_back = 1000;  // names to test with, at least 1, but at most a tenth of all
  std::uint64_t seed = 0;         // chooses which
};

struct NameSplits {
  NameDataset train;
  NameDataset test;
};

// Reads a file (plain or gzip) of one word a line, as makemore does: without white space around
// words and without empty lines, but with repeats, since how often a name is given is part of the
// data. A held-back name may then also be trained on; `distinct` keeps each name once.
// InputError: not UTF-8, a word of over 256 characters, fewer than 10 words, above 1 GiB.
NameList load_names(const std::string& path, bool distinct = false);

// A line's end, token 0, and the characters of the words.
CharVocabulary name_vocabulary(const NameList& list);

// The words as tokens of such a vocabulary. InputError names a word with a character that the
// vocabulary lacks; OptionError of "held_back".
NameSplits split_names(const NameList& list, const CharVocabulary& vocabulary,
                       const NameOptions& options = {});

}  // namespace tapestry
