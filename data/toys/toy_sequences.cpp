#include "data/toys/toy_sequences.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/check.hpp"
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

// Returns the symbols 0-9, a-z, A-Z, then those from U+0100 on, and after 256 the Chinese ones from
// U+4E00 on.
std::vector<std::string> first_symbols(std::int64_t count) {
  constexpr std::string_view ascii =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::vector<std::string> symbols(count);
  const std::int64_t plain = std::ssize(ascii);
  for (std::int64_t i = 0; i < count; ++i)
    append_utf8(symbols[i], i < plain          ? ascii[i]
                            : i < most_symbols ? static_cast<char32_t>(0x100 + i - plain)
                                               : static_cast<char32_t>(0x4E00 + i - most_symbols));
  return symbols;
}

void check_recall(const ToyOptions& options) {
  expect_option(options.length % 2 == 0 && options.length >= 4, "length",
                "length {}; expected an even one, of at least 4", options.length);
  const std::int64_t most = std::min(options.length / 4, options.alphabet / 2);
  expect_option(options.pairs >= 1 && options.pairs <= most, "pairs",
                "{} pairs in {} of {} symbols; expected 1 to {}", options.pairs, options.length,
                options.alphabet, most);
}

ToyOptions checked(ToyOptions options) {
  if (options.task == ToyTask::addition) options.alphabet = 10;
  if (options.task == ToyTask::modular_addition) options.length = 1;
  expect_option(options.length >= 1 && options.length <= max_length, "length",
                "length {}; expected 1 to {}", options.length, max_length);
  const std::int64_t most = options.task == ToyTask::recall ? most_symbols_to_recall : most_symbols;
  expect_option(options.alphabet >= 2 && options.alphabet <= most, "alphabet",
                "alphabet {}; expected 2 to {} symbols", options.alphabet, most);
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
  if (options.task == ToyTask::recall) check_recall(options);
  return options;
}

CharVocabulary vocabulary_of(const ToyOptions& options) {
  std::vector<std::string> symbols = first_symbols(options.alphabet);
  if (adds(options)) symbols.push_back("+");
  if (options.task != ToyTask::recall) symbols.push_back(">");
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
  for (std::int64_t i = 1;
       options_.task == ToyTask::recall && i <= options_.length / 2 - options_.pairs; ++i)
    places_.push_back(std::pow(static_cast<double>(i), -0.99));  // as in Arora et al.
  if (options_.task != ToyTask::modular_addition) return;
  pairs_ = indices(0, options_.alphabet * options_.alphabet);
  Random(0, Stream::data).shuffle(pairs_);
  if (options_.split != Split::train) std::ranges::reverse(pairs_);
}

std::int64_t ToySequences::drawn_symbols() const {
  return adds(options_) ? 2 * options_.length : options_.length;
}

std::int64_t ToySequences::prompt_length() const {
  if (options_.task == ToyTask::recall) return options_.length;
  return drawn_symbols() + (adds(options_) ? 2 : 1);
}

std::int64_t ToySequences::answer_length() const {
  if (options_.task == ToyTask::recall) return 1;
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
    if (options_.task == ToyTask::recall)
      symbols = draw_pairs_and_keys(random);
    else
      for (std::int32_t& symbol : symbols)
        symbol = static_cast<std::int32_t>(random.below(options_.alphabet));
  } while (split_of(symbols) != options_.split);
  return symbols;
}

// Early places are asked more often: weights are those of a power law.
ToySequences::Tokens ToySequences::draw_pairs_and_keys(Random& random) const {
  const std::int64_t half = options_.alphabet / 2;
  std::vector<std::int64_t> keys = indices(0, half), values = indices(half, options_.alphabet);
  random.shuffle_start(keys, options_.pairs);
  random.shuffle_start(values, options_.pairs);
  const auto is_asked = [&](std::int64_t token) {
    return std::ranges::count(keys.begin(), keys.begin() + options_.pairs, token) > 0;
  };
  Tokens sequence(options_.length);
  for (std::int32_t& token : sequence) {
    do token = static_cast<std::int32_t>(random.below(options_.alphabet));
    while (is_asked(token));
  }
  std::vector<double> weights = places_;
  for (std::int64_t i = 0; i < options_.pairs; ++i) {
    sequence[2 * i] = static_cast<std::int32_t>(keys[i]);
    sequence[2 * i + 1] = static_cast<std::int32_t>(values[i]);
    double left = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t place = 0, chosen = 0;
    for (; place < weights.size(); left -= weights[place++]) {
      if (weights[place] == 0) continue;
      chosen = place;
      if (left < weights[place]) break;
    }
    weights[chosen] = 0;
    sequence[2 * (options_.pairs + static_cast<std::int64_t>(chosen))] =
        static_cast<std::int32_t>(keys[i]);
  }
  return sequence;
}

std::int32_t ToySequences::recalled(std::span<const std::int32_t> sequence,
                                    std::int64_t place) const {
  const std::int64_t end = 2 * options_.pairs;
  for (std::int64_t i = 0; i < end && place >= end; i += 2)
    if (sequence[i] == sequence[place]) return sequence[i + 1];
  return -1;
}

ToySequences::Tokens ToySequences::prompt_of(const Tokens& symbols) const {
  if (options_.task == ToyTask::recall) {
    std::int64_t last = std::ssize(symbols) - 1;
    while (last > 0 && recalled(symbols, last) < 0) --last;
    return {symbols.begin(), symbols.begin() + last + 1};
  }
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
  if (options_.task == ToyTask::recall) return {recalled(symbols, std::ssize(symbols) - 1)};
  Tokens answer = symbols;
  if (options_.task == ToyTask::sort) std::ranges::sort(answer);
  if (options_.task == ToyTask::reverse) std::ranges::reverse(answer);
  return answer;
}

std::string ToySequences::prompt(std::int64_t example) const {
  return vocabulary_.decode(prompt_of(draw(example)));
}

std::string ToySequences::completed(std::string prompt) const {
  return options_.task == ToyTask::recall || prompt.ends_with('>') ? prompt : prompt + '>';
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
  if (options_.task == ToyTask::recall) {
    const std::int64_t T = std::ssize(symbols);
    expect_input(
        T > 2 * options_.pairs && T <= options_.length && vocabulary_.decode(symbols) == prompt &&
            recalled(symbols, T - 1) >= 0,
        "prompt '{}': expected {} pairs of a key and a value, and up to {} symbols of which "
        "the last one is one of these keys, like '{}'",
        printable_beginning(prompt), options_.pairs, options_.length - 2 * options_.pairs,
        printable_beginning(this->prompt(0)));
    return vocabulary_.decode(answer_to(symbols));
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

Batch ToySequences::recall_batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples), T = options_.length;
  Batch batch{.inputs = Array::zeros({B, T}, DType::int32),
              .targets = Array::full({B, T}, ignored_target, DType::int32),
              .count = static_cast<double>(B * options_.pairs)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    const Tokens sequence = draw(example);
    input = std::ranges::copy(sequence, input).out;
    for (std::int64_t t = 0; t < T; ++t) *target++ = recalled(sequence, t);
  }
  return batch;
}

Batch ToySequences::batch(std::span<const std::int64_t> examples) const {
  if (options_.task == ToyTask::recall) return recall_batch(examples);
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
