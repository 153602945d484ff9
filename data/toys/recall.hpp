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
  std::int64_t pairs = 8;               // items with a key and a value; at most T, keys, values
  std::int64_t keys = 16, values = 16;  // 2 to 26 (a, b, …), 2 to 100 (0, 1, …)
  std::int64_t distractors = 16;        // different items without a key, 2 to 1000
  std::int64_t examples = 1'000'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// Recall of one value: some items of a sequence have a key and a value, and a question asks for the
// value of one key: the answer to ". c7 . . a12 . f3 a?" is 12. Keys and values do not repeat, and
// the position of the answer is uniform, so that only the key determines it. An item is two
// symbols: a key and a value, a key and "?", or a distractor and a blank. A batch: inputs (B, T +
// 1, 2) and targets (B), int32. Example i depends only on the seed and i; the two splits share no
// input, whatever their seeds.
class Recall final : public Dataset {
 public:
  using Symbols = std::vector<std::int32_t>;  // two per item, the question last

  explicit Recall(const RecallOptions& options);  // throws OptionError of an option out of range

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  std::int64_t vocabulary() const;  // returns the number of different symbols
  Symbols symbols(std::int64_t example) const;

  // Return where the answer to a question at the end of a sequence is, and the answer. Throw
  // std::invalid_argument if there is none.
  std::int64_t answer_position(std::span<const std::int32_t> symbols) const;  // in [0, T)
  std::int64_t answer(std::span<const std::int32_t> symbols) const;           // in [0, values)

  std::vector<std::string> words(
      std::span<const std::int32_t> symbols) const;               // returns one word per item
  std::string text(std::span<const std::int32_t> symbols) const;  // returns ". c7 . a12 a?"
  // Returns the symbols of such a text, of any length. Throws InputError for other items, without a
  // question at the end, and if no item answers the question.
  Symbols encode(std::string_view text) const;

 private:
  std::int32_t first_value() const;
  std::int32_t question() const;
  std::int32_t nothing() const;
  Symbols draw(Random& random) const;
  // Returns the position of the answer; -1 if there is none.
  std::int64_t find_answer(std::span<const std::int32_t> symbols) const;
  std::string word(std::int32_t about, std::int32_t says) const;

  RecallOptions options_;
};

}  // namespace tapestry
