#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text.hpp"

namespace tapestry {

// A list of names, read from a file.
struct NameList {
  std::string path{};
  std::vector<std::string> names{};  // UTF-8, none empty
  std::int64_t longest = 0;          // length of the longest in characters
};

// A data set for next-character prediction within names or other words, to generate new ones.
// Token 0, a line end, precedes and follows each name, as in makemore. A batch, whose T is the
// length of its longest name plus 1, is int32:
//   inputs   (B, T)  0 and the name, then 0 up to the end of the row
//   targets  (B, T)  the name and 0, then ignored_target
// count: the number of targets that are not ignored: each name's characters and the 0 after them.
class NameDataset final : public Dataset {
 public:
  using Name = std::vector<std::int32_t>;  // tokens of the characters, without the 0s

  explicit NameDataset(std::vector<Name> names);  // throws std::invalid_argument without names

  std::int64_t size() const override { return std::ssize(names_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }
  const Name& name(std::int64_t example) const;

 private:
  std::vector<Name> names_;
};

struct NameOptions {
  // Number of names in the test split, at least 1; limited to a tenth of all.
  std::int64_t held_back = 1000;
  std::uint64_t seed = 0;  // seed of the choice of these names by rules 1
  // 1: as many names are drawn. 2: divide_by_hash() of the names divides them, with a share that
  // one more name does not change: held_back / names, rounded to a power of 2, at most 0.1.
  std::int64_t rules = 2;
};

struct NameSplits {
  NameDataset train;
  NameDataset test;
  std::int64_t moved = 0;  // HeldExamples::moved
};

// Reads a file (plain or gzip) of one name per line, as makemore does: removes white space around
// names, and empty lines, but keeps repeated names, because their frequency is part of the data. A
// name of the test split may then also be in the training split; `distinct` keeps each name once.
// Throws InputError for text that is not UTF-8, a name of over 256 characters, fewer than `least`
// names, and a file above 1 GiB.
NameList load_names(const std::string& path, bool distinct = false, std::int64_t least = 10);

// Returns the vocabulary of a line end, token 0, and the characters of the names.
CharVocabulary name_vocabulary(const NameList& list);

// Returns the names as tokens of such a vocabulary, in their order. Throws InputError for a name
// with a character that the vocabulary lacks.
std::vector<NameDataset::Name> encode_names(const NameList& list, const CharVocabulary& vocabulary);

// Returns the names as tokens of such a vocabulary. Throws InputError for a name with a character
// that the vocabulary lacks, or if all names are equal, and OptionError of "held_back" if that is
// below 1.
NameSplits split_names(const NameList& list, const CharVocabulary& vocabulary,
                       const NameOptions& options = {});

}  // namespace tapestry
