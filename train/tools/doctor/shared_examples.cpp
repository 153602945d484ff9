#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/token_windows.hpp"

// Whether what is validated or tested on was learnt by heart.
namespace tapestry {
namespace {

using Prints = std::vector<std::uint64_t>;

// Of the examples of a split that no step reads.
struct Shared {
  std::int64_t read = 0, found = 0;  // of them, and of these in the training data
  bool sure = true;                  // all training examples were looked through
  std::int64_t parted = 0;  // different examples that stand in both splits, each counted once,
  std::vector<double> chances{};  // and the chance of it, of each that there is more than once
};

// That a random cut leaves some of `copies` on both sides.
double chance_to_part(std::int64_t copies, double in_one, double in_other) {
  double all_in_one = 1, all_in_other = 1;
  for (std::int64_t i = 0; i < copies; ++i) {
    const auto drawn = static_cast<double>(i);
    all_in_one *= std::max(0.0, in_one - drawn) / (in_one + in_other - drawn);
    all_in_other *= std::max(0.0, in_other - drawn) / (in_one + in_other - drawn);
  }
  return 1 - all_in_one - all_in_other;
}

// That so many of independent events come true, or more.
double chance_of(std::int64_t seen, const std::vector<double>& chances) {
  constexpr double most_work = 1e8;
  if (static_cast<double>(seen) * static_cast<double>(chances.size()) > most_work) {
    double mean = 0, variance = 0;
    for (const double p : chances) mean += p, variance += p * (1 - p);
    return std::erfc((static_cast<double>(seen) - 0.5 - mean) / std::sqrt(2 * variance)) / 2;
  }
  std::vector<double> exactly(seen);  // of the events so far
  if (seen > 0) exactly[0] = 1;
  for (const double p : chances)
    for (std::int64_t k = seen - 1; k >= 0; --k)
      exactly[k] = exactly[k] * (1 - p) + (k > 0 ? exactly[k - 1] * p : 0);
  return 1 - std::accumulate(exactly.begin(), exactly.end(), 0.0);
}

Shared shared_by(const Dataset& training, const DatasetStatistics& trained_on,
                 const Prints& validated_on) {
  struct Copies {
    std::int64_t training = 0, validation = 0;
  };
  std::unordered_map<std::uint64_t, Copies> all;
  for (const std::uint64_t print : trained_on.fingerprints) ++all[print].training;
  for (const std::uint64_t print : validated_on) ++all[print].validation;
  Shared shared{.read = std::ssize(validated_on)};
  std::unordered_set<std::uint64_t> not_found;
  for (const auto& [print, copies] : all) {
    if (copies.training > 0 && copies.validation > 0) ++shared.parted;
    if (copies.training == 0) not_found.insert(print);
    if (copies.training + copies.validation > 1)
      shared.chances.push_back(chance_to_part(copies.training + copies.validation,
                                              double(trained_on.fingerprints.size()),
                                              double(validated_on.size())));
  }
  if (shared.parted > 0 && !trained_on.whole())
    shared.sure = read_through(training, [&](const Batch& one) {
      not_found.erase(fingerprint(one));
      return !not_found.empty();
    });
  shared.found = std::ranges::count_if(
      validated_on, [&](std::uint64_t print) { return !not_found.contains(print); });
  return shared;
}

std::uint64_t window_hash(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 0;
  hash_windows(tokens, std::ssize(tokens), [&](std::uint64_t found) { hash = found; });
  return hash;
}

// Of windows of a text, which may begin at any token: that one to validate on stands in it is as
// probable as that one of training, of those that do not overlap, stands there once more.
Shared shared_windows(const std::vector<std::int32_t>& text, const Dataset& training,
                      const Dataset& validation) {
  constexpr std::int64_t most_windows = 100'000;
  const std::int64_t T = training.batch(std::vector<std::int64_t>{0}).inputs.size();
  Prints trained_on, validated_on;
  for (const std::int64_t i : evenly(std::ssize(text) / T, most_windows))
    trained_on.push_back(window_hash(std::span(text).subspan(i * T, T)));
  for (const std::int64_t i : evenly(validation.size(), most_windows)) {
    const Batch one = validation.batch(std::vector{i});
    const auto targets = one.targets.values<std::int32_t>();
    if (one.inputs.size() == T && std::ranges::count(targets, ignored_target) == 0)
      validated_on.push_back(window_hash(one.inputs.values<std::int32_t>()));
  }
  std::unordered_map<std::uint64_t, std::int64_t> times;
  for (const Prints* windows : {&trained_on, &validated_on})
    for (const std::uint64_t window : *windows) times[window] = 0;
  hash_windows(text, T, [&](std::uint64_t window) {
    if (const auto asked = times.find(window); asked != times.end()) ++asked->second;
  });
  const auto more_than = [&](std::int64_t count, const Prints& windows) {
    return std::ranges::count_if(windows, [&](auto window) { return times.at(window) > count; });
  };
  const std::int64_t found = more_than(0, validated_on), again = more_than(1, trained_on);
  const auto read = static_cast<double>(validated_on.size());
  return {.read = std::ssize(validated_on),
          .found = found,
          .sure = std::ssize(text) == training.size() + T - 1,
          .parted = found,
          .chances = std::vector<double>(found + again,
                                         read / (read + static_cast<double>(trained_on.size())))};
}

// Data that repeat themselves share examples among random splits. More is a leak; and however it
// came about, a split that training has most of measures nothing.
void report_shared(const Shared& shared, const std::string& split, CheckResult& result) {
  constexpr double least_chance = 1e-3, most_shared = 0.5;
  const double part = static_cast<double>(shared.found) /
                      static_cast<double>(std::max<std::int64_t>(1, shared.read));
  const double expected = std::accumulate(shared.chances.begin(), shared.chances.end(), 0.0);
  const std::string found =
      fmt::format("{}{} of {} {} examples ({:.3g} %) stand in the training data, too",
                  shared.sure ? "" : "at least ", shared.found, shared.read, split, 100 * part);
  const std::string by_chance =
      fmt::format("of {} different examples that there are more than once, {} stand in both splits",
                  shared.chances.size(), shared.parted);
  if (static_cast<double>(shared.parted) > expected &&
      chance_of(shared.parted, shared.chances) < least_chance)
    result.fault =
        Fault{found,
              fmt::format("the splits were not cut apart: {}, where a cut at random leaves {:.3g}",
                          by_chance, expected),
              "remove them from one of the splits: what is measured on them was learnt by heart"};
  else if (part > most_shared)
    result.fault = Fault{
        found, "examples were copied before the splits were cut, or there are few different ones",
        "cut the splits first, then copy what is to weigh more; where the data are so by nature, "
        "--skip \"shared examples\""};
  else if (shared.found > 0)
    result.warnings.push_back(
        fmt::format("{}: {}, as {:.3g} do by chance", found, by_chance, expected));
}

}  // namespace

CheckResult check_shared_examples(TrainingUnderTest& under_test) {
  const Dataset& training = under_test.task().training_data();
  const auto text = windowed_tokens(training);
  CheckResult result{.said = fmt::format("{} training examples", training.size())};
  for (const auto& [name, data, dataset_statistics] : under_test.evaluation_splits()) {
    const Shared shared = text ? shared_windows(*text, training, *data)
                               : shared_by(training, under_test.training_statistics(),
                                           dataset_statistics.fingerprints);
    result.said += fmt::format("; of {} {} examples, {} read, {} are among them", data->size(),
                               name, shared.read, shared.found);
    report_shared(shared, name, result);
    if (result.fault) break;
  }
  return result;
}

}  // namespace tapestry
