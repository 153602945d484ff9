#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/toys/prompt_dataset.hpp"

namespace tapestry {

// An operation on a sequence. For `addition`, the answer has its least significant digit first, so
// that each digit depends only on what precedes it and one carry (Lee et al. 2023, "Teaching
// Arithmetic to Small Transformers"). For `modular_addition`, the symbols are the numbers below
// their count p, and the answer is the sum modulo p (Power et al. 2022, "Grokking").
enum class ToyTask { sort, reverse, copy, addition, modular_addition };

// Operations on sequences, such as "31415926>11234569" (sort), "0123+0456>97500" (addition: 579
// from the right, with one digit more than its numbers), or "7+8>5" (modular addition of 10
// symbols). For modular addition each example is another one of the p² inputs, the same for every
// seed.
class ToySequences final : public PromptDataset {
 public:
  // `options.length` is that of each number for addition, which always has an alphabet of 10
  // digits; others have 2 to 256 symbols. Throws OptionError of an option out of range.
  explicit ToySequences(ToyTask task, const ToyOptions& options = {});

  Batch batch(std::span<const std::int64_t> examples) const override;
  // Return the numbers of tokens of a prompt, with the separator '>', and of its answer.
  std::int64_t prompt_length() const;
  std::int64_t answer_length() const;
  std::int64_t context() const override { return prompt_length() + answer_length() - 1; }

  std::string prompt(std::int64_t example) const override;  // returns "31415926>"
  std::string completed(std::string prompt) const override;
  std::string answer(std::string_view prompt) const override;  // returns "11234569"

 private:
  std::int64_t drawn_symbols() const;
  Tokens draw(std::int64_t example) const;  // returns the input's symbols, without '+' and '>'
  Tokens prompt_of(const Tokens& symbols) const;  // returns the tokens with '+' and '>'
  Tokens answer_to(const Tokens& symbols) const;

  ToyTask task_;
  std::vector<std::int64_t> pairs_;  // of modular addition, a · p + b, in a random order
};

}  // namespace tapestry
