#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>

#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/run/terminal.hpp"
#include "train/task.hpp"
#include "train/tools/report/comparison.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Row = std::vector<std::string>;

// The alignment of columns: the first `texts` ones are left-aligned, with `remarks` also the last
// one, and all others right-aligned.
struct TableStyle {
  std::size_t texts = 1;
  bool remarks = false;
};

void print_table(const std::vector<Row>& rows, const TableStyle& style = {}) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_text = i < style.texts || (style.remarks && i + 1 == row.size());
      line += i == 0 ? "" : "  ";
      line += is_text ? fmt::format("{:<{}}", row[i], widths[i])
                      : fmt::format("{:>{}}", row[i], widths[i]);
    }
    say("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

// --- runs ---

// Returns the metrics, and the settings with which some of them were computed: "bleu_signature".
Row columns_of(const std::vector<RunGroup>& groups) {
  std::vector<std::string> columns = measured_figures(groups);
  std::set<std::string> names(columns.begin() + 1, columns.end());
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs)
      for (const auto& [name, value] : run.evaluation.items())
        if (value.is_string() && name.ends_with("_signature")) names.insert(name);
  columns.resize(1);
  columns.insert(columns.end(), names.begin(), names.end());
  return columns;
}

Row row_of(const ComparedRun& run, const Row& columns) {
  Row row = {printable(run.folder), fmt::format("{}", run.parameters),
             run.evaluation["step"].dump(),
             fmt::format("{:.0f}", run.evaluation["elapsed_s"].get<double>())};
  for (const std::string& column : columns) {
    const Json value = run.evaluation.value(column, Json());
    row.push_back(value.is_number()   ? fmt::format("{:.4f}", value.get<double>())
                  : value.is_string() ? printable(value.get<std::string>())
                                      : "-");
  }
  return row;
}

void print_runs(const std::vector<RunGroup>& groups) {
  const Row columns = columns_of(groups);
  std::vector<Row> rows = {{"run", "parameters", "steps", "seconds"}};
  for (const std::string& column : columns) rows.front().push_back(printable(column));
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs) rows.push_back(row_of(run, columns));
  print_table(rows);
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs)
      if (const std::string text = run.compared_with_baselines(); !text.empty())
        say("{}: {}\n", printable(run.folder), printable(text));
}

// --- groups ---

void print_notes(const std::vector<RunGroup>& groups) {
  for (const RunGroup& group : groups) {
    const std::string names = fmt::format(
        "{}", fmt::join(group.runs | std::views::transform(&ComparedRun::folder), ", "));
    if (!group.is_folder && group.runs.size() > 1)
      say("{}: {} runs of one config with different seeds: {}\n", printable(group.name),
          group.runs.size(), printable(names));
    for (const std::string& seed : group.left_out)
      say("{}: left out, because it has no evaluation yet\n", printable(seed));
    const auto step = [](const ComparedRun& run) { return run.evaluation["step"]; };
    if (std::ranges::adjacent_find(group.runs, std::not_equal_to(), step) != group.runs.end())
      say("{}: its runs were evaluated after different numbers of steps; train them for the same "
          "number\n",
          printable(group.name));
  }
}

Row estimate_row(const RunGroup& group, const std::vector<double>& values) {
  const Estimate estimate = estimate_of(values);
  const int decimals = decimals_of(estimate.deviation);
  Row row = {printable(group.name), fmt::format("{}", estimate.n),
             fmt::format("{:.{}f}", estimate.mean, decimals), "-", "-"};
  if (estimate.n > 1) row[3] = fmt::format("{:.{}f}", estimate.deviation, decimals);
  if (estimate.deviation > 0) row[4] = interval_text(confidence_of(estimate), decimals);
  return row;
}

void print_estimates(const std::vector<RunGroup>& groups) {
  std::vector<Row> rows = {{"metric", "group", "n", "mean", "std", "95 % CI of the mean"}};
  for (const std::string& figure : measured_figures(groups))
    for (const RunGroup& group : groups) {
      const std::vector<double> values = group.values(figure);
      if (values.empty()) continue;
      Row row = {printable(figure)};
      std::ranges::move(estimate_row(group, values), std::back_inserter(row));
      rows.push_back(std::move(row));
    }
  print_table(rows, {.texts = 2});
}

// --- differences ---

constexpr const char* single_run_advice =
    "a single run does not show the spread between seeds: train with --seeds 3 or more";

void print_differences(const std::vector<RunGroup>& groups) {
  const std::vector<Row> rows = difference_table(groups);
  const auto intervals = std::ranges::count_if(
      rows, [](const Row& row) { return row[4] == "paired" || row[4] == "Welch"; });
  const bool has_single =
      std::ranges::any_of(groups, [](const RunGroup& group) { return group.runs.size() == 1; });
  if (rows.size() == 1) return;
  say("\ndifference from {}:\n", printable(groups.front().name));
  print_table(rows, {.texts = 2, .remarks = true});
  if (intervals > 1)
    say("{} intervals, not corrected for their number: 1 in 20 excludes 0 even without a "
        "difference\n",
        intervals);
  if (has_single) say("{}\n", single_run_advice);
}

// Prints which metrics of single runs are not comparable, because no table of differences is
// printed for these.
void print_not_comparable(const std::vector<RunGroup>& groups) {
  const RunGroup& first = groups.front();
  for (auto other = groups.begin() + 1; other != groups.end(); ++other) {
    std::map<std::string, std::string> figures;  // metrics by reason
    for (const std::string& figure : measured_figures(groups))
      if (!first.values(figure).empty() && !other->values(figure).empty())
        if (const std::string reason = why_not_comparable(first, *other, figure); !reason.empty())
          figures[reason] += (figures[reason].empty() ? "" : ", ") + figure;
    for (const auto& [reason, names] : figures)
      say("not comparable between {} and {}: {}: {}\n", printable(first.name),
          printable(other->name), printable(names), printable(reason));
  }
}

// Returns a value of a config, shortened to 40 bytes; "-" if it is empty.
std::string cell_of(const std::string& value) {
  constexpr std::size_t most = 40;
  const std::string shown = printable(value.substr(0, 4 * most));
  if (value.empty()) return "-";
  if (shown.size() <= most) return shown;
  std::size_t end = most - 3;
  while ((shown[end] & 0xC0) == 0x80) --end;  // the cut is within a character
  return shown.substr(0, end) + "...";
}

std::vector<Row> transposed(const std::vector<Row>& rows) {
  std::vector<Row> columns(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  return columns;
}

// Prints one row per key and one column per group, or the transposed table of many groups.
void print_settings(const std::vector<RunGroup>& groups) {
  const std::vector<SettingDifference> differences = settings_that_differ(groups);
  say("\nsettings that differ:{}\n", differences.empty() ? " none" : "");
  if (differences.empty()) return;
  std::vector<Row> rows = {{""}};
  for (const RunGroup& group : groups) rows.front().push_back(printable(group.name));
  for (const SettingDifference& difference : differences) {
    rows.push_back({difference.name});
    for (const std::string& value : difference.values) rows.back().push_back(cell_of(value));
  }
  if (groups.size() > std::max<std::size_t>(3, differences.size())) rows = transposed(rows);
  print_table(rows, {.texts = rows.front().size()});
}

// --- JSON ---

void add_interval(const Confidence& confidence, Json& to) {
  to["low"] = confidence.value - confidence.margin;
  to["high"] = confidence.value + confidence.margin;
  to["degrees"] = confidence.degrees;
}

// Returns the value of "verdict", which scripts read and which therefore never changes.
const char* verdict_of(FigureDifference::Outcome outcome) {
  using enum FigureDifference::Outcome;
  return outcome == no_significant_difference ? "cannot be told apart"
         : outcome == no_spread               ? "no spread to judge by"
         : outcome == one_run                 ? "seeds unknown"
                                              : outcome_name(outcome);
}

Json json_of(const Estimate& estimate) {
  Json object{{"n", estimate.n}, {"mean", estimate.mean}};
  if (estimate.n > 1) object["deviation"] = estimate.deviation;
  if (estimate.deviation > 0) add_interval(confidence_of(estimate), object);
  return object;
}

Json json_of(const FigureDifference& difference) {
  const char* verdict = verdict_of(difference.outcome);
  if (!difference.reason.empty()) return {{"verdict", verdict}, {"reason", difference.reason}};
  Json object{{"difference", difference.value}, {"verdict", verdict}};
  if (!difference.margin) return object;
  object["test"] = difference.is_paired ? "paired" : "Welch";
  object["p"] = difference.p();
  add_interval({difference.value, *difference.margin, difference.degrees}, object);
  return object;
}

Json json_of(const RunGroup& group, const std::vector<std::string>& figures) {
  Json object{{"group", group.name},    {"runs", Json::array()},      {"seeds", group.seeds()},
              {"steps", Json::array()}, {"left_out", group.left_out}, {"figures", Json::object()}};
  for (const ComparedRun& run : group.runs) {
    object["runs"].push_back(run.folder);
    object["steps"].push_back(run.evaluation["step"]);
  }
  for (const std::string& figure : figures)
    if (const std::vector<double> values = group.values(figure); !values.empty())
      object["figures"][figure] = json_of(estimate_of(values));
  return object;
}

Json json_of(const RunGroup& first, const RunGroup& other,
             const std::vector<std::string>& figures) {
  Json object{{"comparison", other.name},
              {"with", first.name},
              {"figures", Json::object()},
              {"settings", Json::object()}};
  for (const std::string& figure : figures)
    if (const auto difference = difference_of(first, other, figure))
      object["figures"][figure] = json_of(*difference);
  for (const SettingDifference& difference : settings_that_differ({first, other}))
    object["settings"][difference.name] = difference.values;
  return object;
}

// Returns {"run": …, "parameters": …} with the last evaluation of each run.
std::vector<Json> json_of_runs(const std::vector<RunGroup>& groups) {
  std::vector<Json> objects;
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs) {
      objects.push_back({{"run", run.folder}, {"parameters", run.parameters}});
      objects.back().update(run.evaluation);
      for (const auto& [split, baselines] : run.baselines)
        objects.back()["baselines"][split] = json_of(baselines);
    }
  return objects;
}

// Returns {"group": …} for each group, with its runs, seeds and estimates; then {"comparison": …,
// "with": …} of each group with the first. Unknown values are omitted, such as low and high if
// there is no interval.
std::vector<Json> json_of_groups(const std::vector<RunGroup>& groups) {
  const std::vector<std::string> figures = measured_figures(groups);
  std::vector<Json> objects;
  for (const RunGroup& group : groups) objects.push_back(json_of(group, figures));
  for (auto other = groups.begin() + 1; other != groups.end(); ++other)
    objects.push_back(json_of(groups.front(), *other, figures));
  return objects;
}

class Compare final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("RUN", runs_, "folders of runs, or of runs with several seeds");
    arguments.flag("--groups", groups_alone_, "print only the groups of runs, not the single runs");
    arguments.flag(
        "--json", json_,
        "print one JSON object per run; with --groups, one per group and per comparison");
  }

  int run() override {
    const std::vector<RunGroup> groups = read_groups(runs_);
    if (json_) {
      for (const Json& object : groups_alone_ ? json_of_groups(groups) : json_of_runs(groups))
        print_json(object);
      return 0;
    }
    const bool has_seeds =
        std::ranges::any_of(groups, [](const RunGroup& group) { return group.runs.size() > 1; });
    if (!groups_alone_) print_runs(groups);
    if (!groups_alone_ && has_seeds) say("\n");
    print_notes(groups);
    if (groups_alone_ || has_seeds) print_estimates(groups);
    if (groups.size() == 1) return 0;
    if (has_seeds) {
      print_differences(groups);
    } else {
      say("\n");
      print_not_comparable(groups);
      say("{}\n", single_run_advice);
    }
    print_settings(groups);
    return 0;
  }

 private:
  std::vector<std::string> runs_;
  bool groups_alone_ = false, json_ = false;
};

const RegisterCommand<Compare> compare_command("compare",
                                               "compare the metrics of runs, and test whether they "
                                               "differ significantly");

}  // namespace
}  // namespace tapestry
