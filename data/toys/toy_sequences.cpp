#include "data/toys/toy_sequences.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t max_length = 512;
constexpr double least_inputs = 64;  // fewer cannot be split in two with something in each

bool adds(const ToyOptions& options) {
  return options.task == ToyTask::addition || options.task == ToyTask::modular_addition;
}

// Returns the symbols 0-9, a-z, A-Z and, from U+0100 on, as many as are needed.
std::vector<std::string> first_symbols(std::int64_t count) {
  constexpr std::string_view ascii =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::vector<std::string> symbols(count);
  const std::int64_t plain = std::ssize(ascii);
  for (std::int64_t i = 0; i < count; ++i)
    append_utf8(symbols[i], i < plain ? ascii[i] : static_cast<char32_t>(0x100 + i - plain));
  return symbols;
}

ToyOptions checked(ToyOptions options) {
  if (options.task == ToyTask::addition) options.alphabet = 10;
  if (options.task == ToyTask::modular_addition) options.length = 1;
  expect_option(options.length >= 1 && options.length <= max_length, "length",
                "length {}; expected 1 to {}", options.length, max_length);
  expect_option(options.alphabet >= 2 && options.alphabet <= most_symbols, "alphabet",
                "alphabet {}; expected 2 to {} symbols", options.alphabet, most_symbols);
  expect_option(options.examples >= 1, "examples", "{} examples; expected at least 1",
                options.examples);
  const double inputs = std::pow(static_cast<double>(options.alphabet),
                                 static_cast<double>(options.length * (adds(options) ? 2 : 1)));
  expect_option(inputs >= least_inputs, "length",
                "only {} different inputs of length {} and {} symbols exist; expected at least {}, "
                "so that some are left for validation",
                inputs, options.length, options.alphabet, least_inputs);
  expect_option(
      options.task != ToyTask::modular_addition || static_cast<double>(options.examples) < inputs,
      "examples", "{} examples; modulo {} there are only {} different ones", options.examples,
      options.alphabet, inputs);
  return options;
}

CharVocabulary vocabulary_of(const ToyOptions& options) {
  std::vector<std::string> symbols = first_symbols(options.alphabet);
  if (adds(options)) symbols.push_back("+");
  symbols.push_back(">");
  return CharVocabulary(std::move(symbols));
}

std::vector<std::int32_t> sum_from_the_right(const std::vector<std::int32_t>& digits) {
  const std::size_t length = digits.size() / 2;
  std::vector<std::int32_t> sum;
  std::int32_t carry = 0;
  for (std::size_t i = length; i-- > 0;) {
    const std::int32_t column = digits[i] + digits[length + i] + carry;
    sum.push_back(column % 10);
    carry = column / 10;
  }
  sum.push_back(carry);
  return sum;
}

}  // namespace

ToySequences::ToySequences(const ToyOptions& options)
    : options_(checked(options)), vocabulary_(vocabulary_of(options_)) {
  if (options_.task != ToyTask::modular_addition) return;
  pairs_ = indices(0, options_.alphabet * options_.alphabet);
  Random(0, Stream::data).shuffle(pairs_);
  if (options_.split != Split::train) std::ranges::reverse(pairs_);
}

std::int64_t ToySequences::drawn_symbols() const {
  return adds(options_) ? 2 * options_.length : options_.length;
}

std::int64_t ToySequences::prompt_length() const {
  return drawn_symbols() + (adds(options_) ? 2 : 1);
}

std::int64_t ToySequences::answer_length() const {
  return options_.length + (options_.task == ToyTask::addition ? 1 : 0);
}

// Returns the first input drawn that belongs to this split.
ToySequences::Tokens ToySequences::draw(std::int64_t example) const {
  require_example("ToySequences", example);
  if (!pairs_.empty()) {
    const std::int64_t p = options_.alphabet, pair = pairs_[example];
    return {static_cast<std::int32_t>(pair / p), static_cast<std::int32_t>(pair % p)};
  }
  Random random(options_.seed, Stream::data, static_cast<std::uint64_t>(example));
  Tokens symbols(drawn_symbols());
  do {
    for (std::int32_t& symbol : symbols)
      symbol = static_cast<std::int32_t>(random.below(options_.alphabet));
  } while (split_of(symbols) != options_.split);
  return symbols;
}

ToySequences::Tokens ToySequences::prompt_of(const Tokens& symbols) const {
  const auto separator = static_cast<std::int32_t>(vocabulary_.size() - 1);
  Tokens prompt = symbols;
  if (adds(options_)) prompt.insert(prompt.begin() + options_.length, separator - 1);
  prompt.push_back(separator);
  return prompt;
}

ToySequences::Tokens ToySequences::answer_to(const Tokens& symbols) const {
  if (options_.task == ToyTask::addition) return sum_from_the_right(symbols);
  if (options_.task == ToyTask::modular_addition)
    return {static_cast<std::int32_t>((symbols[0] + symbols[1]) % options_.alphabet)};
  Tokens answer = symbols;
  if (options_.task == ToyTask::sort) std::ranges::sort(answer);
  if (options_.task == ToyTask::reverse) std::ranges::reverse(answer);
  return answer;
}

std::string ToySequences::prompt(std::int64_t example) const {
  return vocabulary_.decode(prompt_of(draw(example)));
}

std::string ToySequences::answer(std::string_view prompt) const {
  Tokens symbols;
  for (std::size_t at = 0; at < prompt.size();) {
    const std::size_t bytes = std::max(1, code_point_at(prompt, at).bytes);
    const auto found = std::ranges::find(vocabulary_.symbols(), prompt.substr(at, bytes));
    const std::int64_t token = found - vocabulary_.symbols().begin();
    if (token < options_.alphabet) symbols.push_back(static_cast<std::int32_t>(token));
    at += bytes;
  }
  const bool well_formed =
      std::ssize(symbols) == drawn_symbols() && vocabulary_.decode(prompt_of(symbols)) == prompt;
  if (!well_formed) {  // the separator at the end is not shown, because the user may leave it out
    const std::string example = this->prompt(0);
    if (prompt.ends_with(example.back())) prompt.remove_suffix(1);
    throw InputError(fmt::format("prompt '{}': expected {} characters like '{}', of the symbols {}",
                                 printable_beginning(prompt), prompt_length() - 1,
                                 printable_beginning(example.substr(0, example.size() - 1)),
                                 fmt::join(first_symbols(options_.alphabet), "")));
  }
  return vocabulary_.decode(answer_to(symbols));
}

Batch ToySequences::batch(std::span<const std::int64_t> examples) const {
  const auto row = [&](std::int64_t b) {
    const Tokens symbols = draw(examples[b]), answer = answer_to(symbols);
    Tokens sequence = prompt_of(symbols);
    sequence.insert(sequence.end(), answer.begin(), answer.end());
    return sequence;
  };
  const std::int64_t B = std::ssize(examples);
  Batch batch = next_token_batch({B, context()}, row, prompt_length() - 1);
  batch.count = static_cast<double>(B * answer_length());  // in a dry run, too
  return batch;
}

}  // namespace tapestry
