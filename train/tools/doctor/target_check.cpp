#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "autograd/checksum.hpp"
#include "autograd/random.hpp"
#include "data/series/series.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/comparison.hpp"
#include "train/tools/doctor/dependence.hpp"
#include "train/tools/doctor/exchanged_labels.hpp"
#include "train/tools/doctor/graph_reading.hpp"
#include "train/tools/doctor/next_tokens.hpp"

// Whether targets belong to the inputs that they stand beside.
namespace tapestry {
namespace {

constexpr std::int64_t fewest = 32;
constexpr double all_but_rounding = 0.999;

// Of token by token: each target is the token that comes next, or none is by rule.
std::optional<Fault> misplaced(const NextTokens& found) {
  const std::string all = fmt::format(
      "{:.1f} % of the targets are the token that comes next in the inputs, {:.1f} % the one in "
      "their own place, {:.1f} % the next but one",
      100 * found.next, 100 * found.same, 100 * found.second_next);
  const char* advice = "give as target t of a row what its input t + 1 is";
  if (found.next >= all_but_rounding) return std::nullopt;
  if (found.next > 0.5) return Fault{all, "some targets are of another row or place", advice};
  if (std::max(found.same, found.second_next) > 0.9)
    return Fault{all, "the targets are off by one", advice};
  if (found.own_row > 0.8 && found.other_row < found.own_row / 2)
    return Fault{all, "the targets are the tokens of their row in another order", advice};
  return std::nullopt;
}

bool says_what_it_reads(const Comparison& seen, const Examples& examples) {
  return seen.kind != Comparison::Kind::cross_entropy && seen.kind != Comparison::Kind::unknown &&
         seen.targets.size() == examples.batch.inputs.size() &&
         std::ranges::equal(seen.targets.values<float>(), examples.batch.inputs.values<float>());
}

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  Checksum sum;
  sum.add(std::as_bytes(tokens));
  return sum.value();
}

// Of rows whose targets are not their own next tokens: those of another row. Where rows repeat
// themselves, a match is no wonder.
std::optional<Fault> of_other_rows(const Dataset& data) {
  constexpr std::int64_t most_rows = 20'000, most_asked = 100;
  std::unordered_map<std::uint64_t, std::int64_t> row_that_goes_on;
  const std::vector<std::int64_t> rows = evenly(data.size(), most_rows);
  for (const std::int64_t row : rows) {
    const Batch one = data.batch(std::vector{row});
    row_that_goes_on.emplace(hash_of(one.inputs.values<std::int32_t>().subspan(1)), row);
  }
  if (10 * row_that_goes_on.size() < 9 * rows.size()) return std::nullopt;
  const std::vector<std::int64_t> asked = evenly(data.size(), most_asked);
  std::vector<std::pair<std::int64_t, std::int64_t>> others;
  for (const std::int64_t row : asked) {
    const Batch one = data.batch(std::vector{row});
    const auto found = row_that_goes_on.find(
        hash_of(one.targets.values<std::int32_t>().first(one.targets.size() - 1)));
    if (found != row_that_goes_on.end() && found->second != row)
      others.emplace_back(row, found->second);
  }
  if (2 * others.size() < asked.size()) return std::nullopt;
  return Fault{
      fmt::format("the targets of {} of {} examples are the tokens that come next in "
                  "another one's inputs: of example {} in those of example {}",
                  others.size(), asked.size(), others.front().first, others.front().second),
      "the targets were shuffled, or stand beside the wrong inputs",
      "take inputs and targets of an example from one row"};
}

// --- whether they know of each other ---

constexpr std::int64_t most_looked_at = 8192, block = 64, small = 512;
constexpr double enough = 5;   // deviations that are no chance,
constexpr double certain = 8;  // nor in the best of many looks

// Groups of neighbouring examples that lie evenly among all; few examples are one group.
using Groups = std::vector<std::vector<std::int64_t>>;
Groups neighbours_of(std::int64_t size) {
  const std::int64_t read = std::min(size, most_looked_at),
                     count = size <= small ? 1 : read / block;
  Groups groups(count);
  for (std::int64_t g = 0; g < count; ++g)
    for (std::int64_t i = 0; i < read / count; ++i) groups[g].push_back(g * size / count + i);
  return groups;
}

// The same examples in groups at random.
Groups mixed(Groups groups, std::uint64_t seed) {
  std::vector<std::int64_t> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  Random(seed, Stream::eval).shuffle(all);
  auto next = all.begin();
  for (auto& group : groups)
    for (std::int64_t& example : group) example = *next++;
  return groups;
}

// Of each group's inputs with its targets.
std::vector<Fit> fits_of(const Dataset& data, const Groups& groups, std::uint64_t seed) {
  std::vector<Fit> fits;
  for (const auto& group : groups) {
    std::vector<Array> reads, says;
    for (const std::int64_t example : group) {
      const Batch one = data.batch(std::vector{example});
      reads.push_back(reading_of(one));
      says.push_back(one.targets);
    }
    fits.push_back(fit(likeness(reads), likeness(says), seed + fits.size()));
  }
  return fits;
}

Fit sum_of(std::span<const Fit> fits) {
  Fit sum;
  for (const Fit& one : fits) sum += one;
  return sum;
}

// Some of the examples in their order, from the first to the last.
struct Part {
  std::int64_t first, last;
  Fit fit;
};
std::vector<Part> parts_of(const Groups& groups, const std::vector<Fit>& fits) {
  constexpr std::int64_t most_parts = 8;
  const std::int64_t size = std::ssize(fits), count = std::min(most_parts, size);
  std::vector<Part> parts;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t begin = p * size / count, end = (p + 1) * size / count;
    parts.push_back({groups[begin].front(), groups[end - 1].back(),
                     sum_of(std::span(fits).subspan(begin, end - begin))});
  }
  return parts;
}

// A part whose inputs fit the targets some examples away, and better than their own.
std::optional<Fault> shifted(const std::vector<Part>& parts) {
  for (const auto& [first, last, fit] : parts) {
    const int shift = fit.best_shift();
    const double own = fit.deviations(), other = fit.shifted_by(shift);
    if (other < certain || own > other / 2) continue;
    return Fault{fmt::format("from example {} to {}, inputs fit the targets of {} example{} {} "
                             "(by {:.0f} deviations) better than their own (by {:.0f})",
                             first, last, std::abs(shift), std::abs(shift) > 1 ? "s" : "",
                             shift > 0 ? "further on" : "before", other, own),
                 "inputs and targets are read from two lists, one of which lacks a row, or has one "
                 "too many, there or before",
                 "compare the lists' lengths, then their rows where these examples begin"};
  }
  return std::nullopt;
}

// A part whose targets fit their inputs no better than others, while all together do.
void warn_of_silent(const std::vector<Part>& parts, const Fit& all, CheckResult& result) {
  const auto count = static_cast<double>(parts.size());
  if (all.deviations() < certain * std::sqrt(count)) return;
  for (const auto& [first, last, fit] : parts)
    if (fit.deviations() < 2 && fit.variety > all.variety / count / 2) {
      result.warnings.push_back(fmt::format(
          "from example {} to {}, inputs tell nothing of their targets ({:.1f} deviations)", first,
          last, fit.deviations()));
      return;
    }
}

// Of tokens it is seen how often each occurs: neither their order nor what one asks of another.
// With images, features, graphs and translations such a look is known to suffice.
bool is_seen_by_bags(const Batch& one) {
  return one.inputs.dtype() == DType::float32 || one.has_auxiliary();
}

// Windows of one table, each target of which is among the inputs of later ones.
bool are_windows_of_series(const Dataset& data) {
  return dynamic_cast<const SeriesDataset*>(&data) != nullptr;
}

// Groups of windows that do not overlap, or, where these would be too few, that overlap little:
// what windows have in common because they share rows tells nothing of their pairing.
Groups windows_apart(const Dataset& data) {
  constexpr std::int64_t least_windows = 64;
  const Batch one = data.batch(std::vector<std::int64_t>{0});
  const std::int64_t rows = one.inputs.dim(1) + one.targets.dim(1);
  const std::int64_t stride = std::clamp<std::int64_t>(data.size() / least_windows, 1, rows);
  Groups groups = neighbours_of(data.size() / stride);
  for (auto& group : groups)
    for (std::int64_t& example : group) example *= stride;
  return groups;
}

// What is amiss where neighbours' targets, or any, fit the inputs as well as the given ones do.
std::optional<Fault> unrelated(const Fit& near, const Fit& far, std::size_t count, bool of_series) {
  const char* advice = "look at some examples; where only a finer look can tell: --skip targets";
  if (far.deviations() < enough && of_series)
    return Fault{fmt::format("the targets of {} windows do not depend on their inputs: pairs taken "
                             "at random fit as well ({:.1f} deviations; {:.0f} are wanted)",
                             count, far.deviations(), enough),
                 "the series are noise, or the rows of the file stand in a random order",
                 "plot the series; sort the rows by time; where only a finer look can tell: --skip "
                 "targets"};
  if (far.deviations() < enough)
    return Fault{fmt::format("the inputs of {} examples tell nothing of their targets: pairs taken "
                             "at random belong together as well ({:.1f} deviations; {:.0f} are "
                             "wanted)",
                             count, far.deviations(), enough),
                 "the targets were shuffled, or stand beside the wrong inputs", advice};
  const bool varies_nearby = near.variety > far.variety / 2;
  if (near.deviations() < std::min(enough, far.deviations() / 2) && varies_nearby)
    return Fault{fmt::format("the inputs of {} examples fit the targets of their neighbours as "
                             "well as their own ({:.1f} deviations; {:.0f} are wanted): what they "
                             "have in common is the order of the file",
                             count, near.deviations(), enough),
                 "the targets stand beside inputs some rows away", advice};
  return std::nullopt;
}

// What neighbouring examples have in common, as by a file's order, tells nothing of their pairing.
void judge_dependence(TrainingUnderTest& under_test, CheckResult& result) {
  const Dataset& data = under_test.task().training_data();
  const std::uint64_t seed = seed_of(under_test.config());
  const bool of_series = are_windows_of_series(data);
  const Groups groups = of_series ? windows_apart(data) : neighbours_of(data.size());
  const std::vector<Fit> fits = fits_of(data, groups, seed);
  const std::vector<Part> parts = parts_of(groups, fits);
  if (!of_series && (result.fault = shifted(parts))) return;
  const Fit near = sum_of(fits);
  const auto count = groups.size() * groups.front().size();
  const Fit far = groups.size() == 1 || near.deviations() >= enough
                      ? near
                      : sum_of(fits_of(data, mixed(groups, seed), seed));
  const std::optional<Fault> fault = unrelated(near, far, count, of_series);
  if (fault && is_seen_by_bags(data.batch(std::vector<std::int64_t>{0}))) {
    result.fault = fault;
  } else if (fault) {
    result.said += "this look sees no dependence";
    result.warnings.push_back(
        fault->found +
        ". Only how often each token occurs was compared: where their order says "
        "it, or one asks for another, this look cannot tell");
  } else {
    result.said +=
        fmt::format("inputs and targets of {} examples belong together, by {:.0f} deviations",
                    count, far.deviations());
    warn_of_silent(parts, near, result);
  }
}

}  // namespace

CheckResult check_targets(TrainingUnderTest& under_test) {
  constexpr std::int64_t looked_at = 256;
  const Dataset& data = under_test.task().training_data();
  const Examples two = under_test.training_examples(2);
  if (says_what_it_reads(compare_outputs(under_test.task(), under_test.config(), two), two))
    return {.said = "the targets are the inputs"};
  CheckResult result;
  if (const Examples some = examples_of(data, evenly(data.size(), looked_at));
      has_token_targets(some.batch)) {
    const NextTokens found = next_tokens(some.batch);
    if ((result.fault = misplaced(found))) return result;
    if (found.next <= 0.5 && (result.fault = of_other_rows(data))) return result;
    result.said = found.next > 0.5 ? "each target is the next token" : "";
    if (found.next > 0.5 && !some.batch.has_auxiliary()) return result;
    if (found.next > 0.5) result.said += "; ";
  }
  if (data.size() < fewest) {
    result.said += fmt::format("too few examples ({}) to compare them", data.size());
    result.skipped = result.said.starts_with("too");
    return result;
  }
  judge_dependence(under_test, result);
  if (!result.fault) result.fault = exchanged_labels(under_test);
  return result;
}

}  // namespace tapestry
