#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text.hpp"

namespace tapestry {

struct ToyOptions {
  std::int64_t length = 8;     // symbols of an input, 1 to 512
  std::int64_t alphabet = 10;  // symbols 0-9, a-z, A-Z, Ā, ā, …; after 256 Chinese characters
  std::int64_t examples = 100'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};
inline constexpr std::int64_t max_toy_length = 512, max_toy_symbols = 16'384;

// A synthetic task for a decoder-only language model, in which a prompt has one right answer. A
// batch: inputs (B, T) and targets (B, T), int32, T = context(). Only answers are counted. Example
// i depends only on the seed and i; the two splits share no input, whatever their seeds.
class PromptDataset : public Dataset {
 public:
  std::int64_t size() const final { return options_.examples; }
  const CharVocabulary& vocabulary() const { return vocabulary_; }
  virtual std::int64_t context() const = 0;
  // Returns whether a sequence has several answers, each to a question of its own.
  virtual bool asks_several() const { return false; }

  virtual std::string prompt(std::int64_t example) const = 0;
  // Returns a prompt with the separator, which a user may leave out.
  virtual std::string completed(std::string prompt) const { return prompt; }
  // Returns the correct answer. Throws InputError for a text that is not a prompt of this task.
  virtual std::string answer(std::string_view prompt) const = 0;

 protected:
  using Tokens = std::vector<std::int32_t>;
  // Each of the separators, ASCII characters, is a token after the symbols.
  PromptDataset(const ToyOptions& options, std::string_view separators);
  const ToyOptions& options() const { return options_; }
  Tokens known_tokens(std::string_view text) const;  // leaves out unknown characters

 private:
  ToyOptions options_;
  CharVocabulary vocabulary_;
};

// Throws OptionError of "length" if so few different inputs exist that a split may have none.
void expect_inputs(double inputs, const ToyOptions& options);

}  // namespace tapestry
