#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"
#include "data/text/text.hpp"

namespace tapestry {

// A kind of synthetic task. For `addition`, the answer has its least significant digit first, so
// that each digit depends only on what precedes it and one carry (Lee et al. 2023, "Teaching
// Arithmetic to Small Transformers"). For `modular_addition`, the symbols are the numbers below
// their count p, and the answer is the sum modulo p (Power et al. 2022, "Grokking"). For `recall`
// (multi-query associative recall; Arora et al. 2023, arXiv 2312.04927, §4), a sequence begins with
// pairs of a key, one of the first half of the symbols, and a value, one of the others; then each
// key stands once more among random symbols, and the answer to each is its value.
enum class ToyTask { sort, reverse, copy, addition, modular_addition, recall };

inline constexpr std::int64_t most_symbols = 256, most_symbols_to_recall = 16'384;

struct ToyOptions {
  ToyTask task = ToyTask::sort;
  // Input symbols, 1 to 512; for addition, digits of each number; for recall, all symbols of a
  // sequence, an even number.
  std::int64_t length = 8;
  // 2 to 256 of the symbols 0-9, a-z, A-Z, Ā, ā, …; addition always uses the 10 digits. For recall
  // up to 16,384, of which the later ones are Chinese characters.
  std::int64_t alphabet = 10;
  std::int64_t pairs = 2;  // of recall, at most a quarter of the length, and half of the symbols
  std::int64_t examples = 100'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// Synthetic tasks for a decoder-only language model, such as "31415926>11234569" (sort) or
// "0123+0456>97500" (addition: 579 from the right, with one digit more than its numbers), or
// "7+8>5" (modular addition of 10 symbols). A batch: inputs (B, T) and targets (B, T), int32, T =
// context(). Only answers are counted; those of recall are no inputs. Example i depends only on the
// seed and i; the two splits share no input, whatever their seeds. For modular addition each
// example is another one of the p² inputs, the same for every seed.
class ToySequences final : public Dataset {
 public:
  explicit ToySequences(const ToyOptions& options);  // throws OptionError of an option out of range

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  const CharVocabulary& vocabulary() const { return vocabulary_; }
  // Return the numbers of tokens of a prompt, with the separator '>', and of its answer. The
  // longest prompt of recall is the whole sequence.
  std::int64_t prompt_length() const;
  std::int64_t answer_length() const;
  std::int64_t context() const { return prompt_length() + answer_length() - 1; }

  // Returns whether a sequence has several answers, each to a question of its own.
  bool asks_several() const { return options_.task == ToyTask::recall; }

  // Returns "31415926>"; for recall, the sequence up to the last key that is asked.
  std::string prompt(std::int64_t example) const;
  // Returns a prompt with the separator, which a user may leave out.
  std::string completed(std::string prompt) const;

  // Returns the correct answer: "11234569". Throws InputError for a text that is not a prompt of
  // this task.
  std::string answer(std::string_view prompt) const;

 private:
  using Tokens = std::vector<std::int32_t>;
  std::int64_t drawn_symbols() const;
  Tokens draw(std::int64_t example) const;  // returns the input's symbols, without '+' and '>'
  Tokens prompt_of(const Tokens& symbols) const;  // returns the tokens with '+' and '>'
  Tokens answer_to(const Tokens& symbols) const;
  Tokens draw_pairs_and_keys(Random& random) const;
  // Returns the value that answers the token at a place of a sequence of recall; -1 if it is no key
  // that is asked.
  std::int32_t recalled(std::span<const std::int32_t> sequence, std::int64_t place) const;
  Batch recall_batch(std::span<const std::int64_t> examples) const;

  ToyOptions options_;
  CharVocabulary vocabulary_;
  std::vector<std::int64_t> pairs_;  // of modular addition, a · p + b, in a random order
  std::vector<double> places_;       // of recall: weights of the places where a key is asked
};

}  // namespace tapestry
