#include "data/toys/associative_recall.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/text/printable.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

double different_sequences(std::int64_t pairs, const ToyOptions& options) {
  const std::int64_t keys = options.alphabet / 2, values = options.alphabet - keys,
                     places = options.length / 2 - pairs;
  double count = std::pow(static_cast<double>(options.alphabet - pairs),
                          static_cast<double>(options.length - 3 * pairs));
  for (std::int64_t i = 0; i < pairs; ++i)
    count *= static_cast<double>((keys - i) * (values - i) * (places - i));
  return count;
}

ToyOptions checked(std::int64_t pairs, const ToyOptions& options) {
  expect_range("length", options.length, 4, max_toy_length);
  expect_option(options.length % 2 == 0, "length", "expected an even number");
  expect_range("alphabet", options.alphabet, 2, max_toy_symbols);
  expect_range("pairs", pairs, 1, std::min(options.length / 4, options.alphabet / 2));
  expect_examples(options.examples);
  expect_inputs(different_sequences(pairs, options), options);
  return options;
}

}  // namespace

AssociativeRecall::AssociativeRecall(std::int64_t pairs, const ToyOptions& options)
    : PromptDataset(checked(pairs, options), ""), pairs_(pairs) {}

// The place of a key has a power law, with which early places are asked more often.
AssociativeRecall::Tokens AssociativeRecall::draw(Random& random) const {
  const std::int64_t half = options().alphabet / 2;
  const std::vector<std::int64_t> keys = choose(pairs_, half, random),
                                  values = choose(pairs_, options().alphabet - half, random);
  Tokens sequence(options().length);
  for (std::int32_t& token : sequence) {
    do token = static_cast<std::int32_t>(random.below(options().alphabet));
    while (std::ranges::count(keys, token) > 0);
  }
  std::vector<std::int64_t> places = indices(pairs_, options().length / 2);
  std::vector<double> weights;
  for (const std::int64_t place : places)  // the exponent of Arora et al.
    weights.push_back(std::pow(static_cast<double>(place - pairs_ + 1), -0.99));
  for (std::int64_t i = 0; i < pairs_; ++i) {
    double left = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::int64_t chosen = 0;
    while (chosen + 1 < std::ssize(weights) && left >= weights[chosen]) left -= weights[chosen++];
    sequence[2 * i] = sequence[2 * places[chosen]] = static_cast<std::int32_t>(keys[i]);
    sequence[2 * i + 1] = static_cast<std::int32_t>(half + values[i]);
    places.erase(places.begin() + chosen);
    weights.erase(weights.begin() + chosen);
  }
  return sequence;
}

AssociativeRecall::Tokens AssociativeRecall::sequence(std::int64_t example) const {
  require_example("AssociativeRecall", example);
  return draw_of(options(), example, [&](Random& random) { return draw(random); });
}

std::int32_t AssociativeRecall::value_at(std::span<const std::int32_t> sequence,
                                         std::int64_t place) const {
  const std::int64_t end = 2 * pairs_;
  for (std::int64_t i = 0; i < end && place >= end; i += 2)
    if (sequence[i] == sequence[place]) return sequence[i + 1];
  return ignored_target;
}

std::string AssociativeRecall::prompt(std::int64_t example) const {
  Tokens tokens = sequence(example);
  while (value_at(tokens, std::ssize(tokens) - 1) == ignored_target) tokens.pop_back();
  return vocabulary().decode(tokens);
}

std::string AssociativeRecall::answer(std::string_view prompt) const {
  const Tokens tokens = known_tokens(prompt);
  const std::int64_t T = std::ssize(tokens);
  const bool is_sequence = T <= options().length && vocabulary().decode(tokens) == prompt;
  const std::int32_t value = is_sequence ? value_at(tokens, T - 1) : ignored_target;
  expect_input(value != ignored_target,
               "prompt '{}': expected {} pairs of a key and a value, and up to {} symbols of which "
               "the last one is one of these keys, like '{}'",
               printable_beginning(prompt), pairs_, options().length - 2 * pairs_,
               printable_beginning(this->prompt(0)));
  return vocabulary().symbols()[value];
}

Batch AssociativeRecall::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples), T = context();
  Batch batch{.inputs = Array({B, T}, DType::int32),
              .targets = Array({B, T}, DType::int32),
              .count = static_cast<double>(B * pairs_)};
  if (is_dry_run()) return batch;
  const auto inputs = batch.inputs.mutable_values<std::int32_t>(),
             targets = batch.targets.mutable_values<std::int32_t>();
  for (std::int64_t b = 0; b < B; ++b) {
    const Tokens tokens = sequence(examples[b]);
    std::ranges::copy(tokens, inputs.begin() + b * T);
    for (std::int64_t t = 0; t < T; ++t) targets[b * T + t] = value_at(tokens, t);
  }
  return batch;
}

}  // namespace tapestry
