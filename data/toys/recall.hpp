#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"

namespace tapestry {

struct RecallOptions {
  std::int64_t length = 32;             // T: items before the question, 8 to 512
  std::int64_t pairs = 8;               // of them with a key and a value; at most T, keys, values
  std::int64_t keys = 16, values = 16;  // 2 to 26 (a, b, …), 2 to 100 (0, 1, …)
  std::int64_t distractors = 16;        // different items that say nothing, 2 to 1000
  std::int64_t examples = 1'000'000;
  std::uint64_t seed = 0;
  bool is_validation = false;  // the split that is not trained on
};

// Associative recall: items pass by, some of which hold a key and a value, and a question asks for
// the value of one key: ". c7 . . a12 . f3 a?" is answered by 12. Keys do not repeat, nor do
// values, and the answer stands anywhere with the same probability: its place says nothing, its key
// all. An item is two symbols, what it is about and what it says: a key and a value, a key and "?",
// or a distractor and nothing. A batch: inputs (B, T + 1, 2) and targets (B), int32. Example i
// depends on (seed, i) alone; the two splits share no input, whatever their seeds.
class Recall final : public Dataset {
 public:
  using Symbols = std::vector<std::int32_t>;  // two an item, the question last

  explicit Recall(const RecallOptions& options);  // OptionError of the one out of its range

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  std::int64_t vocabulary() const;  // different symbols
  Symbols symbols(std::int64_t example) const;

  // Of a sequence that ends in a question. std::invalid_argument where nothing answers it.
  std::int64_t answer_position(std::span<const std::int32_t> symbols) const;  // in [0, T)
  std::int64_t answer(std::span<const std::int32_t> symbols) const;           // in [0, values)

  std::vector<std::string> words(std::span<const std::int32_t> symbols) const;  // an item each
  std::string text(std::span<const std::int32_t> symbols) const;                // ". c7 . a12 a?"
  // The symbols of such a text, of any length. InputError where nothing in it answers a question.
  Symbols encode(std::string_view text) const;

 private:
  std::int32_t first_value() const;
  std::int32_t question() const;
  std::int32_t nothing() const;
  Symbols draw(Random& random) const;
  std::int64_t find_answer(std::span<const std::int32_t> symbols) const;  // -1: there is none
  std::string word(std::int32_t about, std::int32_t says) const;

  RecallOptions options_;
};

}  // namespace tapestry
