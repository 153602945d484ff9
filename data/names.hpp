#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text.hpp"

namespace tapestry {

// The words of a file, their characters and the longest word, shared by the two splits.
struct NameList {
  std::vector<std::string> names;  // UTF-8, none empty
  CharVocabulary characters;
  std::int64_t longest;  // in characters
};

// Next-character prediction within words, such as first names, to learn to invent more of them.
// Token 0 stands before a word and after it, as in makemore; token 1 + i is character i.
// A batch, T being its longest word and one more: inputs (B, T), 0 and the word, then 0; targets
// (B, T), the word and 0, then ignored_target; int32. count: the characters and one a word.
class NameDataset final : public Dataset {
 public:
  // members: indices into list->names, at least one.
  NameDataset(std::shared_ptr<const NameList> list, std::vector<std::int64_t> members);

  std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  Batch batch(std::span<const std::int64_t> examples) const override;

  const std::string& name(std::int64_t example) const;
  const CharVocabulary& characters() const { return list_->characters; }
  std::int64_t vocabulary_size() const { return characters().size() + 1; }
  std::int64_t context() const { return list_->longest + 1; }  // the largest T, of both splits

  // The characters of a word as tokens, without the 0s. InputError names an unknown character.
  std::vector<std::int32_t> encode(std::string_view word) const;
  // The characters before the first 0.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::shared_ptr<const NameList> list_;
  std::vector<std::int64_t> members_;
};

struct NameOptions {
  std::int64_t held_back = 1000;  // names to test with, but a tenth of them at most
  std::uint64_t seed = 0;         // chooses which
  bool distinct = false;          // keep only the first of equal names
};

struct NameSplits {
  NameDataset train;
  NameDataset test;
};

// Reads a file (plain or gzip) of one word a line. White space around words and empty lines are
// dropped, as in makemore. So are no repeats, as there: how often a name is given is part of the
// data, but a held-back name may then also be trained on; `distinct` rules that out.
// InputError: not UTF-8, a word of over 256 characters, fewer than 10 words, above 1 GiB.
NameSplits load_names(const std::string& path, const NameOptions& options = {});

}  // namespace tapestry
