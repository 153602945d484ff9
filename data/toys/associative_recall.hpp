#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/random.hpp"
#include "data/toys/prompt_dataset.hpp"

namespace tapestry {

// Multi-query associative recall (Arora et al. 2023, arXiv 2312.04927, §4): a sequence begins with
// pairs of a key, one of the first half of the symbols, and a value, one of the others. Then each
// key stands once more among random symbols, and its value is the answer there, which is no input:
// in "05161203", 6 answers the second 1, and 5 the second 0. A prompt ends with such a key.
class AssociativeRecall final : public PromptDataset {
 public:
  // `pairs`: at most a quarter of the length, an even number from 4 on, and half of the 2 to 16,384
  // symbols. Throws OptionError of an option out of range.
  AssociativeRecall(std::int64_t pairs, const ToyOptions& options);

  Batch batch(std::span<const std::int64_t> examples) const override;
  std::int64_t context() const override { return options().length; }
  bool asks_several() const override { return true; }
  // Returns the sequence up to the last key that is asked.
  std::string prompt(std::int64_t example) const override;
  std::string answer(std::string_view prompt) const override;

 private:
  Tokens draw(Random& random) const;
  Tokens sequence(std::int64_t example) const;
  // Returns the value of the key that is asked at a place; ignored_target if none is.
  std::int32_t value_at(std::span<const std::int32_t> sequence, std::int64_t place) const;

  std::int64_t pairs_;
};

}  // namespace tapestry
