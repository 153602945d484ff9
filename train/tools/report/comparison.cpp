#include "train/tools/report/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

// --- reading ---

// Adds the metrics of the test split as "test_loss" and so on.
void add_test(const Json& test, Json& evaluation) {
  for (const auto& [name, value] : test.items())
    if (name != "step" && name != "split" && name != "elapsed_s")
      evaluation["test_" + name] = value;
}

// Returns the last evaluation of a run with the evaluation of the test split after it; null if the
// run was not evaluated. Throws InputError if the folder is not a run, or for a damaged line.
Json last_evaluation(const Run& run) {
  expect_run(run, {run.metrics()});
  Json last;
  for (LineReader line(run.metrics()); line.next();) {
    const Json entry = line.metrics();
    if (is_split(entry, "val")) last = entry;
    if (is_split(entry, "test") && !last.is_null()) add_test(entry, last);
  }
  return last;
}

std::string tokens_of(const Checkpoint& checkpoint) {
  const std::string tokenizer = value_in(checkpoint.metadata, "tokenizer");
  return tokenizer.empty() ? value_in(checkpoint.metadata, "vocabulary") : tokenizer;
}

ComparedRun compared(const std::string& folder, const Json& evaluation) {
  const Checkpoint head = load_trained_metadata(folder);
  const Run run_folder(folder);
  // The best model may have the config of an earlier, shorter session.
  const Config config = has_file(run_folder.config())
                            ? config_as_recorded(run_folder)
                            : config_as_recorded(ConfigDocument(head.path, head.config));
  const std::vector<Session> sessions = read_sessions(run_folder);
  ComparedRun run{.folder = folder,
                  .task = config[key::task],
                  .parameters = count_parameters(head),
                  .seed = config[key::seed],
                  .evaluation = evaluation,
                  .settings = config.settings_that_count(),
                  .data = head.state.data,
                  .splits = head.state.splits,
                  .tokens = tokens_of(head),
                  .version = sessions.empty() ? "" : sessions.back().version,
                  .backends = head.backends,
                  .baselines = read_baselines(run_folder)};
  run.settings.erase(key::seed.name);
  return run;
}

// --- groups ---

std::string value_or_unused(const ConfigSettings& settings, const std::string& name) {
  const std::string value = value_in(settings, name);
  return value.empty() ? "unused" : value;
}

RunGroup group_of_seeds(const std::string& folder, const std::vector<std::string>& seeds) {
  RunGroup group{.name = folder, .is_folder = true};
  for (const std::string& seed : seeds) {
    const Json evaluation = last_evaluation(Run(seed));
    if (evaluation.is_null()) {
      group.left_out.push_back(seed);
      continue;
    }
    ComparedRun run = compared(seed, evaluation);
    for (const ComparedRun& other : group.runs) {
      expect_input(other.seed != run.seed,
                   "{}: has seed {}, like {}; move one of them out of the folder", seed, run.seed,
                   other.folder);
      for (const std::string& name : names_that_differ({&other.settings, &run.settings}))
        throw InputError(
            fmt::format("{}: {} is {}, but {} in {}: runs in a folder of seeds must differ in the "
                        "seed alone; name the runs one by one",
                        seed, name, value_or_unused(run.settings, name),
                        value_or_unused(other.settings, name), other.folder));
    }
    group.runs.push_back(std::move(run));
  }
  expect_input(!group.runs.empty(),
               "{}: none of its seeds has been evaluated yet; compare after an evaluation", folder);
  return group;
}

void join(ComparedRun run, std::vector<RunGroup>& groups) {
  const auto found = std::ranges::find_if(groups, [&](const RunGroup& group) {
    return !group.is_folder && group.runs.front().settings == run.settings &&
           std::ranges::count(group.runs, run.seed, &ComparedRun::seed) == 0;
  });
  if (found == groups.end())
    groups.push_back({.name = run.folder, .runs = {std::move(run)}});
  else
    found->runs.push_back(std::move(run));
}

// --- metrics ---

// Returns whether `differ` is false for all pairs of runs of the same seed.
bool are_alike(const RunGroup& first, const RunGroup& other, const auto& differ) {
  for (const ComparedRun& one : first.runs)
    for (const ComparedRun& another : other.runs)
      if (one.seed == another.seed && differ(one, another)) return false;
  return true;
}

// Returns whether runs of the same seed read the same data, as far as is known.
bool have_same_data(const RunGroup& first, const RunGroup& other) {
  return are_alike(first, other, [](const auto& a, const auto& b) { return a.data != b.data; });
}

// Returns whether the examples of a split are the same, unless a run did not record its checksum.
bool have_same_split(const RunGroup& first, const RunGroup& other, const char* name) {
  const auto sums_of = [&](const RunGroup& group) {
    std::set<std::string> sums;
    for (const ComparedRun& run : group.runs) sums.insert(value_in(run.splits, name));
    return sums;
  };
  const std::set<std::string> sums = sums_of(first), others = sums_of(other);
  const bool has_seeds = first.runs.size() > 1 || other.runs.size() > 1;
  if (has_seeds && sums.size() == 1 && others.size() == 1)  // that do not change the split
    return sums.begin()->empty() || others.begin()->empty() || sums == others;
  return are_alike(first, other, [&](const auto& a, const auto& b) {
    const std::string one = value_in(a.splits, name), another = value_in(b.splits, name);
    return !one.empty() && !another.empty() && one != another;
  });
}

bool are_pairs(const RunGroup& first, const RunGroup& other) {
  const std::vector<std::int64_t> seeds = first.seeds(), others = other.seeds();
  return std::set(seeds.begin(), seeds.end()) == std::set(others.begin(), others.end()) &&
         have_same_data(first, other);
}

// Returns the values in the order of the seeds, so that values of equal seeds form pairs.
std::vector<double> values_by_seed(RunGroup group, const std::string& figure) {
  std::ranges::sort(group.runs, {}, &ComparedRun::seed);
  return group.values(figure);
}

FigureDifference::Outcome outcome_of_difference(const Confidence& difference) {
  using enum FigureDifference::Outcome;
  if (difference.margin == 0) return difference.value == 0 ? same : no_spread;
  return std::abs(difference.value) > difference.margin ? differs : no_significant_difference;
}

// --- settings ---

// Returns the different texts of the runs: "100, 200".
template <class Text>
std::string texts_of(const RunGroup& group, const Text& text) {
  std::vector<std::string> texts;
  for (const ComparedRun& run : group.runs)
    if (const std::string one = text(run); std::ranges::count(texts, one) == 0)
      texts.push_back(one);
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns whether all runs were evaluated at the last step of their configs.
bool steps_are_as_set(const std::vector<RunGroup>& groups) {
  const auto is_as_set = [](const ComparedRun& run) {
    return run.evaluation["step"].dump() == value_in(run.settings, key::steps.name);
  };
  return std::ranges::all_of(
      groups, [&](const RunGroup& group) { return std::ranges::all_of(group.runs, is_as_set); });
}

// Returns the outcome in words, followed by the numbers of runs, of which the lower one is `n`, if
// there is no significant difference.
std::string outcome_text(const FigureDifference& difference, const std::string& numbers,
                         std::int64_t n, MetricInfo::Better better) {
  const std::string name = outcome_name(difference.outcome);
  if (!difference.reason.empty()) return fmt::format("{}: {}", name, printable(difference.reason));
  if (difference.outcome == FigureDifference::Outcome::no_significant_difference &&
      n < enough_seeds && difference.margin)
    return undecided(n, difference.p());
  if (difference.outcome != FigureDifference::Outcome::differs)
    return fmt::format("{} ({})", name, numbers);
  const bool is_lower = difference.value < 0;
  const bool is_better =
      better == (is_lower ? MetricInfo::Better::lower : MetricInfo::Better::higher);
  const char* worth = better == MetricInfo::Better::neither ? ""
                      : is_better                           ? " (better)"
                                                            : " (worse)";
  return fmt::format("significantly {}{}", is_lower ? "lower" : "higher", worth);
}

// Returns a row of difference_table; empty if the metric was not measured in both groups.
std::vector<std::string> difference_row(const RunGroup& first, const RunGroup& other,
                                        const std::string& figure) {
  const std::optional<FigureDifference> difference = difference_of(first, other, figure);
  if (!difference) return {};
  const int decimals = decimals_of(difference->margin.value_or(0));
  const std::int64_t n = std::ssize(first.values(figure)), m = std::ssize(other.values(figure));
  const std::string numbers = fmt::format("n = {} and {}", n, m);
  std::vector<std::string> row = {
      printable(figure),
      printable(other.name),
      difference->reason.empty() ? fmt::format("{:+.{}f}", difference->value, decimals) : "-",
      "-",
      "-",
      outcome_text(*difference, numbers, std::min(n, m),
                   metric_info(first.runs.front().task, figure).better)};
  if (difference->margin) {
    row[3] = interval_text({.value = difference->value, .margin = *difference->margin}, decimals);
    row[4] = difference->is_paired ? "paired" : "Welch";
  }
  return row;
}

}  // namespace

std::string ComparedRun::compared_with_baselines() const {
  if (baselines.empty()) return "";
  const auto& [split, all] = *baselines.begin();
  Metrics metrics;
  for (const char* name : {"loss", "accuracy"})
    if (const Json value =
            evaluation.value((split == "test" ? "test_" : "") + std::string(name), Json());
        value.is_number())
      metrics[name] = value.get<double>();
  return metrics.contains("loss") ? comparison(all, metrics) : "";
}

std::vector<std::int64_t> RunGroup::seeds() const {
  std::vector<std::int64_t> seeds;
  for (const ComparedRun& run : runs) seeds.push_back(run.seed);
  return seeds;
}

std::string RunGroup::setting(const std::string& name) const {
  return value_in(runs.front().settings, name);
}

std::vector<double> RunGroup::values(const std::string& figure) const {
  std::vector<double> values;
  for (const ComparedRun& run : runs)
    if (const auto found = run.evaluation.find(figure);
        found != run.evaluation.end() && found->is_number())
      values.push_back(found->get<double>());
  return values;
}

std::vector<RunGroup> read_groups(const std::vector<std::string>& folders) {
  std::vector<RunGroup> groups;
  for (const std::string& folder : different_folders(folders)) {
    const std::vector<std::string> seeds = seed_folders(folder);
    if (!seeds.empty()) {
      groups.push_back(group_of_seeds(folder, seeds));
      continue;
    }
    const Json evaluation = last_evaluation(Run(folder));
    expect_input(!evaluation.is_null(),
                 "{}: has not been evaluated yet; compare after an evaluation", folder);
    join(compared(folder, evaluation), groups);
  }
  return groups;
}

std::vector<std::string> measured_figures(const std::vector<RunGroup>& groups) {
  std::set<std::string> names;
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs)
      for (const auto& [name, value] : run.evaluation.items())
        if (value.is_number()) names.insert(name);
  for (const char* other : {"step", "elapsed_s", "loss"}) names.erase(other);
  std::vector<std::string> all = {"loss"};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

const char* outcome_name(FigureDifference::Outcome outcome) {
  constexpr const char* names[] = {"differs",
                                   "no significant difference",
                                   "the same",
                                   "no test: the seeds have no spread",
                                   "no test: needs several seeds",
                                   "not in all of the runs",
                                   "not comparable"};
  return names[static_cast<int>(outcome)];
}

std::optional<FigureDifference> difference_of(const RunGroup& first, const RunGroup& other,
                                              const std::string& figure) {
  const std::vector<double> before = values_by_seed(first, figure),
                            after = values_by_seed(other, figure);
  if (before.empty() || after.empty() ||
      first.setting(key::task.name) != other.setting(key::task.name))
    return std::nullopt;
  const Estimate a = estimate_of(before), b = estimate_of(after);
  FigureDifference difference{.value = b.mean - a.mean,
                              .reason = why_not_comparable(first, other, figure)};
  if (!difference.reason.empty()) {
    difference.outcome = FigureDifference::Outcome::not_comparable;
    return difference;
  }
  if (before.size() < first.runs.size() || after.size() < other.runs.size()) {
    difference.outcome = FigureDifference::Outcome::not_in_all;
    return difference;
  }
  if (a.n < 2 || b.n < 2) return difference;

  if (!std::isfinite(a.deviation) || !std::isfinite(b.deviation)) {  // numbers up to 1e308
    difference.outcome = FigureDifference::Outcome::no_significant_difference;
    return difference;
  }
  difference.is_paired = are_pairs(first, other);
  const Confidence found =
      difference.is_paired ? paired_difference(before, after) : welch_difference(a, b);
  difference.value = found.value;
  difference.degrees = found.degrees;
  if (found.margin > 0) difference.margin = found.margin;
  difference.outcome = outcome_of_difference(found);
  return difference;
}

int decimals_of(double spread) {
  if (!(spread > 0 && std::isfinite(spread))) return 4;
  return static_cast<int>(std::clamp(1 - std::floor(std::log10(spread)), 0.0, 12.0));
}

std::string interval_text(const Confidence& confidence, int decimals) {
  return fmt::format("{:.{}f} to {:.{}f}", confidence.value - confidence.margin, decimals,
                     confidence.value + confidence.margin, decimals);
}

std::vector<std::vector<std::string>> difference_table(const std::vector<RunGroup>& groups) {
  std::vector<std::vector<std::string>> rows = {
      {"metric", "group", "difference", "95 % CI", "t-test", "outcome"}};
  for (const std::string& figure : measured_figures(groups))
    for (auto other = groups.begin() + 1; other != groups.end(); ++other)
      if (auto row = difference_row(groups.front(), *other, figure); !row.empty())
        rows.push_back(std::move(row));
  return rows;
}

std::vector<SettingDifference> settings_that_differ(const std::vector<RunGroup>& groups) {
  std::vector<SettingDifference> differences;
  const auto add = [&](const std::string& name, const auto& value_of) {
    SettingDifference difference{.name = name};
    for (const RunGroup& group : groups) difference.values.push_back(value_of(group));
    if (std::ranges::adjacent_find(difference.values, std::not_equal_to()) !=
        difference.values.end())
      differences.push_back(std::move(difference));
  };
  const auto setting = [](const std::string& name) {
    return [name](const RunGroup& group) { return group.setting(name); };
  };
  const auto of_runs = [](const auto& text) {
    return [text](const RunGroup& group) { return texts_of(group, text); };
  };
  add(key::task.name, setting(key::task.name));
  const bool one_task = differences.empty();
  std::vector<const ConfigSettings*> all;
  for (const RunGroup& group : groups) all.push_back(&group.runs.front().settings);
  const auto is_everywhere = [&](const std::string& name) {
    return std::ranges::all_of(all, [&](const ConfigSettings* one) { return one->contains(name); });
  };
  for (const std::string& name : names_that_differ(all))
    if (name != key::task.name && (one_task || is_everywhere(name))) add(name, setting(name));
  const bool same_data = std::ranges::all_of(
      groups, [&](const RunGroup& group) { return have_same_data(groups.front(), group); });
  add("seed", of_runs([](const ComparedRun& run) { return fmt::format("{}", run.seed); }));
  if (!same_data) add("data", of_runs([](const ComparedRun& run) { return run.data; }));
  for (const char* name : split_checksums) {
    const bool is_shown = !same_data && name != std::string_view("data_test");
    if (!is_shown && !std::ranges::all_of(groups, [&](const RunGroup& group) {
          return have_same_split(groups.front(), group, name);
        }))
      add(name, of_runs([&](const ComparedRun& run) { return value_in(run.splits, name); }));
  }
  const std::size_t before = differences.size();
  add("steps done", of_runs([](const ComparedRun& run) { return run.evaluation["step"].dump(); }));
  if (differences.size() > before && steps_are_as_set(groups)) differences.pop_back();
  add("version", of_runs([](const ComparedRun& run) { return run.version; }));
  add("engines", of_runs([](const ComparedRun& run) { return run.backends; }));
  return differences;
}

}  // namespace tapestry
