#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// Texts with classes, as tokens. A batch, whose T is the length of its longest text, is int32:
//   inputs   (B, T)  the tokens, then `padding` up to the end of the row
//   targets  (B)     the classes
// count: B.
class LabeledTextDataset final : public Dataset {
 public:
  using Tokens = std::vector<std::int32_t>;

  // Takes at least one text, none empty, and a label for each, else throws std::invalid_argument.
  LabeledTextDataset(std::vector<Tokens> texts, std::vector<std::int32_t> labels,
                     std::int32_t padding);

  std::int64_t size() const override { return std::ssize(texts_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  std::vector<std::int64_t> lengths() const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  std::vector<Tokens> texts_;
  std::vector<std::int32_t> labels_;
  std::int32_t padding_;
};

// Returns the texts as rows of (B, T) int32, with `padding` up to the longest.
Array padded_rows(std::span<const std::vector<std::int32_t>* const> texts, std::int32_t padding);

}  // namespace tapestry
