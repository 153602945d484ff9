#include "data/text/labeled_text_dataset.hpp"

#include <algorithm>

namespace tapestry {

Array padded_rows(std::span<const std::vector<std::int32_t>* const> texts, std::int32_t padding) {
  std::int64_t T = 0;
  for (const auto* text : texts) T = std::max(T, std::ssize(*text));
  const Shape shape{std::ssize(texts), T};
  if (is_dry_run()) return Array::zeros(shape, DType::int32);
  Array rows = Array::full(shape, padding, DType::int32);
  auto row = rows.mutable_values<std::int32_t>().begin();
  for (const auto* text : texts) {
    std::ranges::copy(*text, row);
    row += T;
  }
  return rows;
}

LabeledTextDataset::LabeledTextDataset(std::vector<Tokens> texts, std::vector<std::int32_t> labels,
                                       std::int32_t padding)
    : texts_(std::move(texts)), labels_(std::move(labels)), padding_(padding) {
  require(!texts_.empty() && texts_.size() == labels_.size(),
          "LabeledTextDataset: {} texts and {} labels; expected at least one, and as many of both",
          texts_.size(), labels_.size());
  for (const Tokens& text : texts_)
    require(!text.empty(), "LabeledTextDataset: a text has no tokens; expected at least one");
}

Batch LabeledTextDataset::batch(std::span<const std::int64_t> examples) const {
  std::vector<const Tokens*> rows;
  std::vector<std::int32_t> classes;
  for (const std::int64_t example : examples) {
    require_example("LabeledTextDataset", example);
    rows.push_back(&texts_[example]);
    classes.push_back(labels_[example]);
  }
  const std::int64_t B = std::ssize(examples);
  return {.inputs = padded_rows(rows, padding_),
          .targets = is_dry_run() ? Array::zeros({B}, DType::int32)
                                  : Array::of<std::int32_t>(classes, {B}),
          .count = static_cast<double>(B)};
}

std::vector<std::int64_t> LabeledTextDataset::lengths() const {
  std::vector<std::int64_t> all;
  for (const Tokens& text : texts_) all.push_back(std::ssize(text));
  return all;
}

void LabeledTextDataset::add_to(Checksum& sum) const {
  for (const Tokens& text : texts_) sum.add_list(text);
  sum.add_list(labels_);
}

}  // namespace tapestry
