#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "autograd/counted.hpp"
#include "data/validation_split.hpp"
#include "train/tools/doctor/check.hpp"

// A check for examples of the validation or test split that are also training examples.
namespace tapestry {
namespace {

using Hashes = std::vector<std::uint64_t>;

// The examples that a split shares with the training data.
struct Shared {
  // Numbers of examples: read from the split, and also found in training.
  std::int64_t read = 0, found = 0;
  bool complete = true;  // whether all training examples were compared
  // Numbers of different examples that occur more than once, of those that occur in both splits,
  // and of those that a random split is expected to have in both.
  std::int64_t repeated = 0, parted = 0;
  double expected = 0;
};

Shared shared_examples(const Dataset& training, const DatasetStatistics& of_training,
                       const Hashes& of_split) {
  struct Copies {
    std::int64_t training = 0, split = 0;
  };
  std::unordered_map<std::uint64_t, Copies> all;
  for (const std::uint64_t hash : of_training.fingerprints) ++all[hash].training;
  for (const std::uint64_t hash : of_split) ++all[hash].split;
  const auto read = static_cast<double>(of_split.size());
  const double p = read / (read + static_cast<double>(of_training.fingerprints.size()));
  Shared shared{.read = std::ssize(of_split)};
  std::unordered_set<std::uint64_t> unseen;
  for (const auto& [hash, copies] : all) {
    const auto count = static_cast<double>(copies.training + copies.split);
    if (copies.training == 0) unseen.insert(hash);
    if (count < 2) continue;
    ++shared.repeated;
    shared.parted += copies.training > 0 && copies.split > 0;
    shared.expected += 1 - std::pow(p, count) - std::pow(1 - p, count);
  }
  if (shared.parted > 0 && !of_training.whole())
    shared.complete = read_through(training, [&](const Batch& one) {
      unseen.erase(fingerprint(one));
      return !unseen.empty();
    });
  shared.found =
      std::ranges::count_if(of_split, [&](std::uint64_t hash) { return !unseen.contains(hash); });
  return shared;
}

// --- windows of a text, which may begin at any token ---

constexpr std::int64_t most_tokens = 20'000'000, most_windows = 100'000;

Array tokens_of(const Dataset& data, std::int64_t example) {
  return data.batch(std::vector{example}).inputs;
}

// Returns whether example i + 1 begins one token after example i.
bool are_windows(const Dataset& data) {
  constexpr std::int64_t compared = 16, shortest = 4;
  const Batch first = data.batch(std::vector<std::int64_t>{0});
  if (first.inputs.dtype() != DType::int32 || first.inputs.rank() != 2 ||
      first.inputs.size() < shortest || first.has_auxiliary() || data.size() < compared)
    return false;
  for (std::int64_t i = 0; i < compared; ++i) {
    const std::int64_t example = i * (data.size() - 1) / compared;
    const Array one = tokens_of(data, example), next = tokens_of(data, example + 1);
    if (one.size() != next.size() ||
        !std::ranges::equal(one.values<std::int32_t>().subspan(1),
                            next.values<std::int32_t>().first(next.size() - 1)))
      return false;
  }
  return true;
}

// Returns the first tokens of the text that a split's examples are windows of.
std::vector<std::int32_t> text_of(const Dataset& data) {
  const std::int64_t T = tokens_of(data, 0).size(), examples = std::min(data.size(), most_tokens);
  std::vector<std::int32_t> tokens;
  tokens.reserve(examples + T);
  while (std::ssize(tokens) < examples + T - 1) {  // the last window begins at the last example
    const std::int64_t example = std::min(std::ssize(tokens), examples - 1);
    const Array window = tokens_of(data, example);
    const auto unread = window.values<std::int32_t>().subspan(std::ssize(tokens) - example);
    tokens.insert(tokens.end(), unread.begin(), unread.end());
  }
  return tokens;
}

std::uint64_t window_hash(std::span<const std::int32_t> tokens) {
  return window_hashes(tokens, std::ssize(tokens)).front();
}

// Returns the windows of the split that occur in the training text. By chance these are as frequent
// as windows of the training text that occur in it twice.
Shared shared_windows(const Dataset& training, const Dataset& split) {
  const std::vector<std::int32_t> text = text_of(training);
  const std::int64_t T = tokens_of(training, 0).size();
  Hashes of_training, of_split;
  for (const std::int64_t i : evenly(std::ssize(text) / T, most_windows))
    of_training.push_back(window_hash(std::span(text).subspan(i * T, T)));
  for (const std::int64_t i : evenly(split.size(), most_windows)) {
    const Batch one = split.batch(std::vector{i});
    if (one.inputs.size() == T &&
        std::ranges::count(one.targets.values<std::int32_t>(), ignored_target) == 0)
      of_split.push_back(window_hash(one.inputs.values<std::int32_t>()));
  }
  std::unordered_map<std::uint64_t, std::int64_t> occurrences;
  for (const Hashes* windows : {&of_training, &of_split})
    for (const std::uint64_t hash : *windows) occurrences[hash] = 0;
  for (const std::uint64_t hash : window_hashes(text, T))
    if (const auto asked = occurrences.find(hash); asked != occurrences.end()) ++asked->second;
  const auto above = [&](std::int64_t count, const Hashes& windows) {
    return std::ranges::count_if(windows, [&](auto hash) { return occurrences.at(hash) > count; });
  };
  const std::int64_t found = above(0, of_split), repeated = found + above(1, of_training);
  const auto read = static_cast<double>(of_split.size());
  return {.read = std::ssize(of_split),
          .found = found,
          .complete = std::ssize(text) == training.size() + T - 1,
          .repeated = repeated,
          .parted = found,
          .expected = static_cast<double>(repeated) * read /
                      std::max(1.0, read + static_cast<double>(of_training.size()))};
}

// Adds a fault or a warning to the result. Data with repetitions share examples after a random
// split, too. More than that is a leak; and a split that consists mostly of training examples
// measures nothing.
void report(const Shared& shared, const std::string& split, CheckResult& result) {
  const double least_log_chance = std::log(1e-3), most_shared = 0.5;
  const double share = static_cast<double>(shared.found) /
                       static_cast<double>(std::max<std::int64_t>(1, shared.read));
  const auto repeated = static_cast<double>(shared.repeated);
  const std::string found = fmt::format(
      "{}{} of {} {} examples ({:.3g} %) are training examples as well",
      shared.complete ? "" : "at least ", shared.found, shared.read, split, 100 * share);
  const std::string by_chance = fmt::format(
      "{} of the {} examples that occur more than once are in both splits; a random cut leaves "
      "{:.3g}",
      shared.parted, shared.repeated, shared.expected);
  if (log_chance(static_cast<double>(shared.parted), repeated,
                 shared.expected / std::max(1.0, repeated)) < least_log_chance)
    result.fault = Fault{found, "the splits overlap: " + by_chance,
                         "remove these examples from one of the splits: the model memorizes them"};
  else if (share > most_shared)
    result.fault = Fault{
        found, "duplicates of examples are in both splits, or the data have few different examples",
        "remove duplicates before splitting; if duplicates are expected: --skip \"shared "
        "examples\""};
  else if (shared.found > 0)
    result.warnings.push_back(found + ": " + by_chance);
}

}  // namespace

std::vector<std::uint64_t> window_hashes(std::span<const std::int32_t> tokens,
                                         std::int64_t length) {
  constexpr std::uint64_t base = 0x9E3779B97F4A7C15;
  const auto number = [](std::int32_t token) { return mix(static_cast<std::uint64_t>(token) + 1); };
  std::uint64_t power = 1, hash = 0;  // power: base to the power of `length`
  for (std::int64_t i = 0; i < length; ++i) power *= base;
  std::vector<std::uint64_t> hashes;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    hash = hash * base + number(tokens[i]);
    if (i >= length) hash -= power * number(tokens[i - length]);
    if (i + 1 >= length) hashes.push_back(hash);
  }
  return hashes;
}

CheckResult check_shared_examples(TrainingUnderTest& under_test) {
  const Dataset& training = under_test.task().training_data();
  const bool of_windows = are_windows(training);
  CheckResult result{.said = counted(training.size(), "training example")};
  for (const EvaluationSplit& split : under_test.evaluation_splits()) {
    const Shared shared = of_windows ? shared_windows(training, *split.data)
                                     : shared_examples(training, under_test.training_statistics(),
                                                       split.statistics.fingerprints);
    result.said += fmt::format("; {} of {} {} examples are training examples as well", shared.found,
                               shared.read, split.name);
    if (shared.read < split.data->size())
      result.said += fmt::format(" (sampled from {})", split.data->size());
    report(shared, split.name, result);
    if (result.fault) break;
  }
  return result;
}

}  // namespace tapestry
