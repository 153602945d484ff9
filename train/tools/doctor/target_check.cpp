#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "autograd/checksum.hpp"
#include "autograd/random.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/dependence.hpp"
#include "train/tools/doctor/observations.hpp"

// A check that targets belong to the inputs with which they are paired.
namespace tapestry {
namespace {

// --- targets that are the next tokens of the inputs ---

struct TokenPlaces {
  double same = 0, second_next = 0, own_row = 0, other_row = 0;
};
// Returns the fractions of targets that equal the input at the same place, the input two
// places later, any input of the row, and any input of the next row of the batch.
TokenPlaces places_of_targets(const Batch& batch) {
  const std::int64_t T = batch.inputs.dim(1);
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  TokenPlaces found;
  double count = 0;
  for (std::int64_t row = 0; row < std::ssize(inputs); row += T) {
    const std::int64_t next = (row + T) % std::ssize(inputs);
    const std::set own(inputs.begin() + row + 1, inputs.begin() + row + T);
    const std::set other(inputs.begin() + next + 1, inputs.begin() + next + T);
    for (std::int64_t t = 0; t + 2 < T; ++t) {
      const std::int32_t target = targets[row + t];
      if (target == ignored_target || targets[row + t + 1] == ignored_target) continue;
      ++count;
      found.same += target == inputs[row + t];
      found.second_next += target == inputs[row + t + 2];
      found.own_row += own.contains(target);
      found.other_row += other.contains(target);
    }
  }
  for (double* share : {&found.same, &found.second_next, &found.own_row, &found.other_row})
    *share /= std::max(1.0, count);
  return found;
}

// Returns the fault if some targets are not the next tokens, or if most are other tokens of their
// row. Other targets are assumed to be no next tokens by design.
std::optional<Fault> misplaced(const Batch& batch, double next) {
  constexpr double all_but_rounding = 0.999;
  if (next >= all_but_rounding) return std::nullopt;
  const TokenPlaces found = places_of_targets(batch);
  const std::string shares = fmt::format(
      "{:.1f} % of the targets are the next token of the inputs, {:.1f} % the token at their own "
      "position, {:.1f} % the next but one",
      100 * next, 100 * found.same, 100 * found.second_next);
  const char* advice = "target t of a row must be its input t + 1";
  if (next > 0.5) return Fault{shares, "some targets are of another row or position", advice};
  if (std::max(found.same, found.second_next) > 0.9)
    return Fault{shares, "the targets are off by one", advice};
  if (found.own_row > 0.8 && found.other_row < found.own_row / 2)
    return Fault{shares, "the targets are the tokens of their row in another order", advice};
  return std::nullopt;
}

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  Checksum sum;
  sum.add(std::as_bytes(tokens));
  return sum.value();
}

// Returns the fault of rows whose targets are the next tokens of other rows; none if more than a
// tenth of the rows are repeated.
std::optional<Fault> of_other_rows(const Dataset& data) {
  constexpr std::int64_t most_rows = 20'000, most_compared = 100;
  std::unordered_map<std::uint64_t, std::int64_t> row_of_inputs;
  const std::vector<std::int64_t> rows = evenly(data.size(), most_rows);
  for (const std::int64_t row : rows) {
    const Batch one = data.batch(std::vector{row});
    row_of_inputs.emplace(hash_of(one.inputs.values<std::int32_t>().subspan(1)), row);
  }
  if (10 * row_of_inputs.size() < 9 * rows.size()) return std::nullopt;
  const std::vector<std::int64_t> compared = evenly(data.size(), most_compared);
  std::vector<std::pair<std::int64_t, std::int64_t>> others;
  for (const std::int64_t row : compared) {
    const Batch one = data.batch(std::vector{row});
    const auto found = row_of_inputs.find(
        hash_of(one.targets.values<std::int32_t>().first(one.targets.size() - 1)));
    if (found != row_of_inputs.end() && found->second != row)
      others.emplace_back(row, found->second);
  }
  if (2 * others.size() < compared.size()) return std::nullopt;
  return Fault{
      fmt::format("the targets of {} of {} examples are the next tokens of another "
                  "example: those of example {} belong to example {}",
                  others.size(), compared.size(), others.front().first, others.front().second),
      "the targets were shuffled, or are paired with the wrong inputs",
      "take inputs and targets of an example from one row"};
}

// --- dependence of all other targets ---

constexpr double least_deviations = 5, certain_deviations = 8;

// Groups of adjacent examples.
using Groups = std::vector<std::vector<std::int64_t>>;
Groups neighboring(std::int64_t size) {
  constexpr std::int64_t most_read = 8192, per_group = 64, small = 512;
  const std::int64_t read = std::min(size, most_read), count = size <= small ? 1 : read / per_group;
  Groups groups(count);
  for (std::int64_t g = 0; g < count; ++g)
    for (std::int64_t i = 0; i < read / count; ++i) groups[g].push_back(g * size / count + i);
  return groups;
}

// Returns groups of windows of a table that do not overlap, or overlap little if these are too few:
// rows that two windows share say nothing about the pairing.
Groups separate_windows(const Dataset& data) {
  constexpr std::int64_t least_windows = 64;
  const Batch one = data.batch(std::vector<std::int64_t>{0});
  const std::int64_t rows = one.inputs.dim(1) + one.targets.dim(1);
  const std::int64_t stride = std::clamp<std::int64_t>(data.size() / least_windows, 1, rows);
  Groups groups = neighboring(data.size() / stride);
  for (auto& group : groups)
    for (std::int64_t& example : group) example *= stride;
  return groups;
}

// Returns the examples in random groups.
Groups mixed(Groups groups, std::uint64_t seed) {
  std::vector<std::int64_t> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  Random(seed, Stream::eval).shuffle(all);
  auto next = all.begin();
  for (auto& group : groups)
    for (std::int64_t& example : group) example = *next++;
  return groups;
}

std::vector<Dependence> dependences(const Dataset& data, const Groups& groups, std::uint64_t seed) {
  std::vector<Dependence> all;
  for (const auto& group : groups) {
    std::vector<Array> inputs, targets;
    for (const std::int64_t example : group) {
      const Batch one = data.batch(std::vector{example});
      inputs.push_back(reading_of(one));
      targets.push_back(one.targets);
    }
    all.push_back(dependence(similarities(inputs), similarities(targets), seed + all.size()));
  }
  return all;
}

Dependence sum_of(std::span<const Dependence> some) {
  Dependence sum;
  for (const Dependence& one : some) sum += one;
  return sum;
}

// Returns the fault of an eighth of the examples whose targets vary but do not depend on the
// inputs, although those of the others do: from some row on, inputs and targets are misaligned.
std::optional<Fault> independent_part(const Groups& groups, const std::vector<Dependence>& found) {
  const std::int64_t size = std::ssize(found), parts = std::min<std::int64_t>(8, size);
  const Dependence all = sum_of(found);
  if (all.deviations() < certain_deviations * std::sqrt(static_cast<double>(parts)))
    return std::nullopt;
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t begin = p * size / parts, end = (p + 1) * size / parts;
    const Dependence part = sum_of(std::span(found).subspan(begin, end - begin));
    if (part.deviations() >= 2 || part.variety < all.variety / static_cast<double>(2 * parts))
      continue;
    return Fault{
        fmt::format("from example {} to {}, the targets do not depend on their inputs "
                    "(z-score {:.1f}); all together do (z-score {:.0f})",
                    groups[begin].front(), groups[end - 1].back(), part.deviations(),
                    all.deviations()),
        "inputs and targets are read from two lists, one of which lacks a row or has one too many",
        "compare the lists' lengths, then their rows where these examples begin"};
  }
  return std::nullopt;
}

// Returns the fault of targets that do not depend on their inputs, `near` among adjacent examples
// and `far` among all examples. What adjacent examples have in common, such as the order of a file,
// says nothing about the pairing.
std::optional<Fault> unrelated(const Dependence& near, const Dependence& far, std::size_t count,
                               bool of_series) {
  const char* advice = "inspect some examples; if the data are correct: --skip targets";
  if (far.deviations() < least_deviations && of_series)
    return Fault{
        fmt::format("the targets of {} windows do not depend on their inputs: "
                    "z-score {:.1f}, expected at least {:.0f}",
                    count, far.deviations(), least_deviations),
        "the series are noise, or the rows of the file are in random order",
        "plot the series, and sort the rows by time; if the data are correct: --skip targets"};
  if (far.deviations() < least_deviations)
    return Fault{fmt::format("the targets of {} examples do not depend on their inputs: "
                             "z-score {:.1f}, expected at least {:.0f}",
                             count, far.deviations(), least_deviations),
                 "the targets were shuffled, or are paired with the wrong inputs", advice};
  const bool varies_nearby = near.variety > far.variety / 2;
  if (near.deviations() < std::min(least_deviations, far.deviations() / 2) && varies_nearby)
    return Fault{fmt::format("the inputs of {} examples fit the targets of their neighbors as well "
                             "as their own (z-score {:.1f}, expected at least {:.0f}): inputs and "
                             "targets share only the order of the file",
                             count, near.deviations(), least_deviations),
                 "the targets are paired with inputs some rows away", advice};
  return std::nullopt;
}

void check_dependence(TrainingUnderTest& under_test, CheckResult& result) {
  const Dataset& data = under_test.task().training_data();
  const std::uint64_t seed = seed_of(under_test.config());
  const bool of_series = data.series() != nullptr;
  const Groups groups = of_series ? separate_windows(data) : neighboring(data.size());
  const std::vector<Dependence> found = dependences(data, groups, seed);
  const Dependence near = sum_of(found);
  const auto count = groups.size() * groups.front().size();
  const Dependence far = groups.size() == 1 || near.deviations() >= least_deviations
                             ? near
                             : sum_of(dependences(data, mixed(groups, seed), seed));
  const std::optional<Fault> fault = unrelated(near, far, count, of_series);
  // Only counts of tokens are compared, not their order. This suffices with numbers, graphs and
  // translations.
  const Batch one = data.batch(std::vector<std::int64_t>{0});
  if (fault && (one.inputs.dtype() == DType::float32 || one.has_auxiliary())) {
    result.fault = fault;
  } else if (fault) {
    result.said += "the targets do not depend on token counts";
    result.warnings.push_back(fault->found +
                              "; only token counts were compared, so targets that depend on the "
                              "order of tokens are not recognized");
  } else {
    result.said += fmt::format("the targets of {} examples depend on their inputs (z-score {:.0f})",
                               count, far.deviations());
    if (!of_series) result.fault = independent_part(groups, found);
  }
}

bool are_the_inputs(const Comparison& seen, const Examples& examples) {
  return seen.kind != Comparison::Kind::cross_entropy && seen.kind != Comparison::Kind::unknown &&
         seen.targets.size() == examples.batch.inputs.size() &&
         std::ranges::equal(seen.targets.values<float>(), examples.batch.inputs.values<float>());
}

}  // namespace

CheckResult check_targets(TrainingUnderTest& under_test) {
  constexpr std::int64_t most_rows = 256, least_examples = 32;
  const Dataset& data = under_test.task().training_data();
  const Examples two = under_test.training_examples(2);
  if (are_the_inputs(compare_outputs(under_test.task(), under_test.config(), two), two))
    return {.said = "the targets are the inputs"};
  CheckResult result;
  if (const Examples some = examples_of(data, evenly(data.size(), most_rows));
      has_token_targets(some.batch)) {
    const double next = share_of_next_tokens(some.batch);
    if ((result.fault = misplaced(some.batch, next))) return result;
    if (next > 0.5) result.said = "each target is the next token";
    if (next > 0.5 && !some.batch.has_auxiliary()) return result;
    if (next > 0.5)
      result.said += "; ";
    else if ((result.fault = of_other_rows(data)))
      return result;
  }
  if (data.size() < least_examples) {
    result.said += fmt::format("too few examples ({}) to compare them", data.size());
    result.skipped = result.said.starts_with("too");
    return result;
  }
  check_dependence(under_test, result);
  if (!result.fault) result.fault = exchanged_labels(under_test);
  return result;
}

}  // namespace tapestry
