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
  std::int64_t pairs = 8;               // of them with a key and a value; at most T and keys
  std::int64_t keys = 16, values = 16;  // 2 to 26 (a, b, …), 2 to 100 (0, 1, …)
  std::int64_t distractors = 16;        // different items that say nothing, 2 to 1000
  std::int64_t examples = 1'000'000;
  std::uint64_t seed = 0;
  bool held_back = false;  // the split that is not trained on
};

// Associative recall: items pass by, some of which hold a key and a value, and a question asks for
// the value of one key: ". c7 . . a12 . f3 a?" is answered by 12. Keys do not repeat, and the
// answer stands anywhere with the same probability: its place says nothing, its key all. A batch:
// inputs (B, T + 1) and targets (B), int32. Each item is one token, the question another. Example i
// depends on (seed, i) alone; the two splits share no input, whatever their seeds.
class Recall final : public Dataset {
 public:
  using Tokens = std::vector<std::int32_t>;

  explicit Recall(const RecallOptions& options);  // InputError names the key, as data.length

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  std::int64_t vocabulary() const;  // different tokens
  Tokens tokens(std::int64_t example) const;

  // Of a sequence that ends in a question. std::invalid_argument where nothing answers it.
  std::int64_t answer_position(std::span<const std::int32_t> tokens) const;  // in [0, T)
  std::int64_t answer(std::span<const std::int32_t> tokens) const;           // in [0, values)

  std::string text(std::span<const std::int32_t> tokens) const;  // ". c7 . a12 a?"
  // The tokens of such a text, of any length. InputError where nothing in it answers a question.
  Tokens encode(std::string_view text) const;

 private:
  Tokens draw(Random& random) const;
  std::int64_t find_answer(std::span<const std::int32_t> tokens) const;  // -1: there is none
  std::string text(std::int32_t token) const;

  RecallOptions options_;
};

}  // namespace tapestry
