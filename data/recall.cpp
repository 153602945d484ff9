#include "data/recall.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "autograd/check.hpp"
#include "data/text.hpp"

namespace tapestry {
namespace {

RecallOptions checked(const RecallOptions& options) {
  const auto expect_range = [](const char* key, std::int64_t value, std::int64_t low,
                               std::int64_t high) {
    expect_input(value >= low && value <= high, "data.{} = {}: expected {} to {}", key, value, low,
                 high);
  };
  expect_range("length", options.length, 8, 512);
  expect_range("keys", options.keys, 2, 26);
  expect_range("values", options.values, 2, 100);
  expect_range("distractors", options.distractors, 2, 1000);
  expect_range("pairs", options.pairs, 1, std::min(options.length, options.keys));
  expect_input(options.examples >= 1, "data.examples = {}: expected at least 1", options.examples);
  return options;
}

// One sequence in eight is held back: by FNV-1a, mixed as in MurmurHash3, so that no seed matters.
bool is_held_back(const Recall::Tokens& tokens) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::int32_t token : tokens)
    hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001B3;
  return (hash ^ hash >> 33) * 0xFF51AFD7ED558CCD >> 61 == 0;
}

// `count` different numbers in [0, n), in random order: the start of Fisher and Yates's shuffle.
std::vector<std::int64_t> choose(std::int64_t count, std::int64_t n, Random& random) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::int64_t i = 0; i < count; ++i)
    std::swap(numbers[static_cast<std::size_t>(i)],
              numbers[static_cast<std::size_t>(i + random.below(n - i))]);
  numbers.resize(static_cast<std::size_t>(count));
  return numbers;
}

}  // namespace

// Tokens are the pairs, key · values + value, then the distractors, then the questions.
Recall::Recall(const RecallOptions& options) : options_(checked(options)) {}

std::int64_t Recall::vocabulary() const {
  return options_.keys * options_.values + options_.distractors + options_.keys;
}

Recall::Tokens Recall::draw(Random& random) const {
  const std::int64_t first_distractor = options_.keys * options_.values;
  Tokens tokens(static_cast<std::size_t>(options_.length));
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(first_distractor + random.below(options_.distractors));
  const std::vector<std::int64_t> places = choose(options_.pairs, options_.length, random),
                                  keys = choose(options_.pairs, options_.keys, random);
  for (std::size_t i = 0; i < places.size(); ++i)
    tokens[static_cast<std::size_t>(places[i])] =
        static_cast<std::int32_t>(keys[i] * options_.values + random.below(options_.values));
  tokens.push_back(static_cast<std::int32_t>(vocabulary() - options_.keys + keys.front()));
  return tokens;
}

// Draws again until the sequence belongs to this split.
Recall::Tokens Recall::tokens(std::int64_t example) const {
  require(example >= 0 && example < size(), "Recall: example {} of {}", example, size());
  Random random(options_.seed, Stream::data, static_cast<std::uint64_t>(example));
  Tokens tokens = draw(random);
  while (is_held_back(tokens) != options_.held_back) tokens = draw(random);
  return tokens;
}

Batch Recall::batch(std::span<const std::int64_t> examples) const {
  const auto B = static_cast<std::int64_t>(examples.size());
  Batch batch{Array({B, options_.length + 1}, DType::int32), Array({B}, DType::int32),
              static_cast<double>(B)};
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    const Tokens sequence = tokens(example);
    input = std::ranges::copy(sequence, input).out;
    *target++ = static_cast<std::int32_t>(answer(sequence));
  }
  return batch;
}

std::int64_t Recall::find_answer(std::span<const std::int32_t> tokens) const {
  const std::int64_t key = tokens.empty() ? -1 : tokens.back() - (vocabulary() - options_.keys);
  for (std::size_t i = 0; key >= 0 && i + 1 < tokens.size(); ++i)
    if (tokens[i] / options_.values == key) return static_cast<std::int64_t>(i);
  return -1;
}

std::int64_t Recall::answer_position(std::span<const std::int32_t> tokens) const {
  const std::int64_t position = find_answer(tokens);
  require(position >= 0, "Recall: nothing answers '{}'", text(tokens));
  return position;
}

std::int64_t Recall::answer(std::span<const std::int32_t> tokens) const {
  return tokens[static_cast<std::size_t>(answer_position(tokens))] % options_.values;
}

std::string Recall::text(std::int32_t token) const {
  const std::int64_t question = token - (vocabulary() - options_.keys);
  const auto letter = [](std::int64_t key) { return static_cast<char>('a' + key); };
  if (question >= 0) return fmt::format("{}?", letter(question));
  if (token >= options_.keys * options_.values) return ".";
  return fmt::format("{}{}", letter(token / options_.values), token % options_.values);
}

std::string Recall::text(std::span<const std::int32_t> tokens) const {
  std::string words;
  for (const std::int32_t token : tokens)
    words += fmt::format("{}{}", words.empty() ? "" : " ", text(token));
  return words;
}

Recall::Tokens Recall::encode(std::string_view words) const {
  Tokens tokens;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;) {
    std::int32_t token = 0;
    while (token < vocabulary() && text(token) != word) ++token;
    tokens.push_back(token);
  }
  const bool known =
      std::ranges::all_of(tokens, [&](std::int32_t token) { return token < vocabulary(); });
  expect_input(known && find_answer(tokens) >= 0,
               "prompt '{}': expected items, with keys a to {} and values 0 to {}, and a question "
               "that one of them answers, like '{}'",
               printable(words), static_cast<char>('a' + options_.keys - 1), options_.values - 1,
               text(this->tokens(0)));
  return tokens;
}

}  // namespace tapestry
