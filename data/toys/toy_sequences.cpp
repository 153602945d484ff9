#include "data/toys/toy_sequences.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/text/printable.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

bool is_addition(ToyTask task) {
  return task == ToyTask::addition || task == ToyTask::modular_addition;
}

ToyOptions checked(ToyTask task, ToyOptions options) {
  if (task == ToyTask::addition) options.alphabet = 10;
  if (task == ToyTask::modular_addition) options.length = 1;
  expect_range("length", options.length, 1, max_toy_length);
  expect_range("alphabet", options.alphabet, 2, 256);
  expect_examples(options.examples);
  const double inputs = std::pow(static_cast<double>(options.alphabet),
                                 static_cast<double>(options.length * (is_addition(task) ? 2 : 1)));
  expect_inputs(inputs, options);
  expect_option(task != ToyTask::modular_addition || static_cast<double>(options.examples) < inputs,
                "examples", "{} examples; modulo {} there are only {} different ones",
                options.examples, options.alphabet, inputs);
  return options;
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

ToySequences::ToySequences(ToyTask task, const ToyOptions& options)
    : PromptDataset(checked(task, options), is_addition(task) ? "+>" : ">"), task_(task) {
  if (task_ != ToyTask::modular_addition) return;
  pairs_ = indices(0, options.alphabet * options.alphabet);
  Random(0, Stream::data).shuffle(pairs_);
  if (options.split != Split::train) std::ranges::reverse(pairs_);
}

std::int64_t ToySequences::drawn_symbols() const {
  return is_addition(task_) ? 2 * options().length : options().length;
}

std::int64_t ToySequences::prompt_length() const {
  return drawn_symbols() + (is_addition(task_) ? 2 : 1);
}

std::int64_t ToySequences::answer_length() const {
  return options().length + (task_ == ToyTask::addition ? 1 : 0);
}

ToySequences::Tokens ToySequences::draw(std::int64_t example) const {
  require_example("ToySequences", example);
  if (!pairs_.empty()) {
    const std::int64_t p = options().alphabet, pair = pairs_[example];
    return {static_cast<std::int32_t>(pair / p), static_cast<std::int32_t>(pair % p)};
  }
  return draw_of(options(), example, [&](Random& random) {
    Tokens symbols(drawn_symbols());
    for (std::int32_t& symbol : symbols)
      symbol = static_cast<std::int32_t>(random.below(options().alphabet));
    return symbols;
  });
}

ToySequences::Tokens ToySequences::prompt_of(const Tokens& symbols) const {
  const auto separator = static_cast<std::int32_t>(vocabulary().size() - 1);
  Tokens prompt = symbols;
  if (is_addition(task_)) prompt.insert(prompt.begin() + options().length, separator - 1);
  prompt.push_back(separator);
  return prompt;
}

ToySequences::Tokens ToySequences::answer_to(const Tokens& symbols) const {
  if (task_ == ToyTask::addition) return sum_from_the_right(symbols);
  if (task_ == ToyTask::modular_addition)
    return {static_cast<std::int32_t>((symbols[0] + symbols[1]) % options().alphabet)};
  Tokens answer = symbols;
  if (task_ == ToyTask::sort) std::ranges::sort(answer);
  if (task_ == ToyTask::reverse) std::ranges::reverse(answer);
  return answer;
}

std::string ToySequences::prompt(std::int64_t example) const {
  return vocabulary().decode(prompt_of(draw(example)));
}

std::string ToySequences::completed(std::string prompt) const {
  return prompt.ends_with('>') ? prompt : prompt + '>';
}

std::string ToySequences::answer(std::string_view prompt) const {
  Tokens symbols = known_tokens(prompt);
  std::erase_if(symbols, [&](std::int32_t token) { return token >= options().alphabet; });
  const bool well_formed =
      std::ssize(symbols) == drawn_symbols() && vocabulary().decode(prompt_of(symbols)) == prompt;
  if (!well_formed) {  // the separator at the end is not shown, because the user may leave it out
    const std::string example = this->prompt(0);
    if (prompt.ends_with(example.back())) prompt.remove_suffix(1);
    throw InputError(
        fmt::format("prompt '{}': expected {} characters like '{}', of the symbols {}",
                    printable_beginning(prompt), prompt_length() - 1,
                    printable_beginning(example.substr(0, example.size() - 1)),
                    fmt::join(std::span(vocabulary().symbols()).first(options().alphabet), "")));
  }
  return vocabulary().decode(answer_to(symbols));
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
