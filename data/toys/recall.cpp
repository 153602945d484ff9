#include "data/toys/recall.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/text/printable.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

RecallOptions checked(const RecallOptions& options) {
  expect_range("length", options.length, 8, 512);
  expect_range("keys", options.keys, 2, 26);
  expect_range("values", options.values, 2, 100);
  expect_range("distractors", options.distractors, 2, 1000);
  expect_range("pairs", options.pairs, 1, std::min({options.length, options.keys, options.values}));
  expect_examples(options.examples);
  return options;
}

}  // namespace

Recall::Recall(const RecallOptions& options) : options_(checked(options)) {}

// Returns the first symbol of a value. Symbols are the keys, the distractors, the values, the
// question and the blank, in this order.
std::int32_t Recall::first_value() const {
  return static_cast<std::int32_t>(options_.keys + options_.distractors);
}
std::int32_t Recall::question() const {
  return first_value() + static_cast<std::int32_t>(options_.values);
}
std::int32_t Recall::nothing() const { return question() + 1; }
std::int64_t Recall::vocabulary() const { return nothing() + 1; }

Recall::Symbols Recall::draw(Random& random) const {
  const auto below = [&](std::int64_t n) { return static_cast<std::int32_t>(random.below(n)); };
  const auto first_distractor = static_cast<std::int32_t>(options_.keys);
  Symbols symbols;
  for (std::int64_t i = 0; i < options_.length; ++i)
    symbols.insert(symbols.end(), {first_distractor + below(options_.distractors), nothing()});
  const std::vector<std::int64_t> places = choose(options_.pairs, options_.length, random),
                                  keys = choose(options_.pairs, options_.keys, random),
                                  values = choose(options_.pairs, options_.values, random);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto at = 2 * places[i];
    symbols[at] = static_cast<std::int32_t>(keys[i]);
    symbols[at + 1] = first_value() + static_cast<std::int32_t>(values[i]);
  }
  symbols.insert(symbols.end(), {static_cast<std::int32_t>(keys.front()), question()});
  return symbols;
}

Recall::Symbols Recall::symbols(std::int64_t example) const {
  require_example("Recall", example);
  return draw_of(options_, example, [&](Random& random) { return draw(random); });
}

Batch Recall::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  Batch batch{.inputs = Array({B, options_.length + 1, 2}, DType::int32),
              .targets = Array({B}, DType::int32),
              .count = static_cast<double>(B)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    const Symbols sequence = symbols(example);
    input = std::ranges::copy(sequence, input).out;
    *target++ = static_cast<std::int32_t>(answer(sequence));
  }
  return batch;
}

std::int64_t Recall::find_answer(std::span<const std::int32_t> symbols) const {
  if (symbols.size() < 2 || symbols.back() != question()) return -1;
  const std::int32_t key = symbols[symbols.size() - 2];
  for (std::size_t i = 0; i + 2 < symbols.size(); i += 2)
    if (symbols[i] == key && symbols[i + 1] < question()) return static_cast<std::int64_t>(i / 2);
  return -1;
}

std::int64_t Recall::answer_position(std::span<const std::int32_t> symbols) const {
  const std::int64_t position = find_answer(symbols);
  require(position >= 0,
          "Recall: '{}': no question at the end that an item answers; expected the sequence to end "
          "with a question whose key an item has",
          text(symbols));
  return position;
}

std::int64_t Recall::answer(std::span<const std::int32_t> symbols) const {
  return symbols[2 * answer_position(symbols) + 1] - first_value();
}

std::string Recall::word(std::int32_t about, std::int32_t says) const {
  if (says == nothing()) return ".";
  const char key = static_cast<char>('a' + about);
  return says == question() ? fmt::format("{}?", key)
                            : fmt::format("{}{}", key, says - first_value());
}

std::vector<std::string> Recall::words(std::span<const std::int32_t> symbols) const {
  std::vector<std::string> words;
  for (std::size_t i = 0; i + 1 < symbols.size(); i += 2)
    words.push_back(word(symbols[i], symbols[i + 1]));
  return words;
}

std::string Recall::text(std::span<const std::int32_t> symbols) const {
  return fmt::format("{}", fmt::join(words(symbols), " "));
}

Recall::Symbols Recall::encode(std::string_view text) const {
  Symbols symbols;
  std::istringstream stream{std::string(text)};
  bool known = true;
  for (std::string item; stream >> item;) {
    const bool is_distractor = item == ".";
    const std::int32_t about =
        is_distractor ? static_cast<std::int32_t>(options_.keys) : item.front() - 'a';
    std::int32_t says = is_distractor ? nothing() : first_value();
    while (says < nothing() && word(about, says) != item) ++says;
    known &= is_distractor || (about >= 0 && about < options_.keys && says < nothing());
    symbols.insert(symbols.end(), {about, says});
  }
  expect_input(known && find_answer(symbols) >= 0,
               "prompt '{}': expected items, with keys a to {} and values 0 to {}, and a question "
               "that one of the items answers, like '. a1 b0 . a?'",
               printable_beginning(text), static_cast<char>('a' + options_.keys - 1),
               options_.values - 1);
  return symbols;
}

}  // namespace tapestry
