#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "train/config/keys.hpp"
#include "train/measure/quantities.hpp"
#include "train/measure/statistics.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string setting(const RecordedRun& recorded, const std::string& name) {
  const std::string value = value_in(recorded.settings, name);
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
}

// A member of RecordedRun that is a line of metrics.
using MetricsOf = std::optional<MetricsLine> RecordedRun::*;

std::vector<double> measured(const RecordedRun& recorded, MetricsOf line, const std::string& name) {
  std::vector<double> values;
  const std::span<const RecordedRun> alone(&recorded, 1), seeds(recorded.seeds);
  for (const RecordedRun& one : seeds.empty() ? alone : seeds)
    if (const auto& read = one.*line; read && read->values.contains(name))
      values.push_back(read->values.at(name));
  return values;
}

// Returns "1.886", or for several seeds "0.81532 ± 0.0071"; empty if the metric was not measured.
std::string figure_text(const RecordedRun& recorded, MetricsOf line, const std::string& name) {
  const std::vector<double> values = measured(recorded, line, name);
  if (values.empty()) return "";
  const Estimate estimate = estimate_of(values);
  const std::string mean = fmt::format("{:.5g}", estimate.mean);
  return recorded.seeds.empty() ? mean : fmt::format("{} ± {:.2g}", mean, estimate.deviation);
}

std::set<std::string> figures_of(std::span<const RecordedRun> runs) {
  std::set<std::string> names;
  for (const RecordedRun& recorded : runs)
    for (const MetricsOf line : {&RecordedRun::validation, &RecordedRun::test})
      if (recorded.*line)
        for (const auto& [name, value] : (recorded.*line)->values) names.insert(name);
  return names;
}

std::string status_of_one(const RecordedRun& recorded) {
  if (recorded.is_trained)
    return fmt::format("is being trained, step {} of {}", recorded.last_step,
                       recorded.steps() > 0 ? fmt::to_string(recorded.steps()) : "?");
  if (recorded.last_step == 0 && recorded.curves.empty()) return "was not trained here";
  return outcome(recorded.sessions, {.step = recorded.last_step,
                                     .steps = recorded.steps(),
                                     .is_tested = recorded.test.has_value()});
}

// Returns "the mean absolute error, in degrees; lower is better".
std::string description_of(const MetricInfo& metric) {
  using enum MetricInfo::Better;
  return metric.meaning + (metric.unit.empty() ? "" : ", in " + metric.unit) +
         (metric.better == lower    ? "; lower is better"
          : metric.better == higher ? "; higher is better"
                                    : "");
}

std::string meanings_of(const std::vector<RecordedRun>& runs) {
  std::set<std::string> shown = figures_of(runs);
  for (const RecordedRun& recorded : runs)
    for (const Curve& curve : recorded.curves) shown.insert(curve.metric);
  std::vector<std::pair<std::string, std::string>> facts;
  for (const std::string& name : shown)
    for (const RecordedRun& recorded : runs) {
      const MetricInfo metric = metric_info(setting(recorded, key::task.name), name);
      if (metric.meaning.empty()) continue;
      facts.emplace_back(name, description_of(metric));
      break;
    }
  return facts.empty() ? "" : html_details("What these metrics mean", html_facts(facts));
}

// Returns a table with a row for each metric and a column for each line of metrics.
std::string figures_table(const RecordedRun& recorded) {
  const auto step_of = [&](MetricsOf line) { return recorded.*line ? (recorded.*line)->step : 0; };
  const bool same = step_of(&RecordedRun::best_validation) == step_of(&RecordedRun::validation);
  std::vector<std::pair<std::string, MetricsOf>> columns = {
      {"best validation", &RecordedRun::best_validation}};
  if (!same || !recorded.seeds.empty())
    columns.emplace_back("last validation", &RecordedRun::validation);
  if (recorded.test) columns.emplace_back("test (best model)", &RecordedRun::test);
  Rows rows = {{""}};
  for (const auto& [name, line] : columns)
    rows[0].push_back(recorded.seeds.empty() ? fmt::format("{}, step {}", name, step_of(line))
                                             : name);
  for (const std::string& figure : figures_of(std::span(&recorded, 1))) {
    rows.push_back({figure});
    for (const auto& [name, line] : columns)
      rows.back().push_back(figure_text(recorded, line, figure));
  }
  return rows.size() > 1 ? html_table(rows) : "";
}

// Returns the mean loss and accuracy of the best models on the split of the baselines that are
// compared; nothing without baselines, or without an evaluation.
Metrics metrics_beside_baselines(const RecordedRun& recorded) {
  Metrics means;
  if (recorded.baselines.empty()) return means;
  const MetricsOf line =
      recorded.baselines.contains("test") ? &RecordedRun::test : &RecordedRun::best_validation;
  for (const char* name : {"loss", "accuracy"})
    if (const std::vector<double> values = measured(recorded, line, name); !values.empty())
      means[name] = estimate_of(values).mean;
  return means;
}

// Returns the baselines of a run beside its best model; "" if there are none.
std::string baselines_table(const RecordedRun& recorded) {
  const Metrics metrics = metrics_beside_baselines(recorded);
  if (metrics.empty()) return "";
  const auto& [split, baselines] = *recorded.baselines.begin();
  const MetricsOf line = split == "test" ? &RecordedRun::test : &RecordedRun::best_validation;
  std::set<std::string> names;
  for (const Baseline& baseline : baselines)
    for (const auto& [name, value] : baseline.metrics) names.insert(name);
  Rows rows = {{split == "test" ? "test split" : "validation split"}, {"this model"}};
  for (const std::string& name : names) {
    rows[0].push_back(name);
    rows[1].push_back(figure_text(recorded, line, name));
  }
  for (const Baseline& baseline : baselines) {
    rows.push_back({baseline.name});
    for (const std::string& name : names) {
      const auto found = baseline.metrics.find(name);
      rows.back().push_back(found == baseline.metrics.end() ? ""
                                                            : fmt::format("{:.5g}", found->second));
    }
  }
  return "<h3>Comparison with baselines</h3>\n<p>" + html_text(comparison(baselines, metrics)) +
         "</p>\n" + html_table(rows, {.stacks = true});
}

// Returns a table with a row for each metric and a column for each run.
std::string comparison_table(const std::vector<RecordedRun>& runs) {
  Rows rows = {{""}, {"model"}, {"state"}, {"parameters"}, {"training time"}};
  for (const RecordedRun& recorded : runs) {
    rows[0].push_back(recorded.name);
    rows[1].push_back(recorded.model.empty() ? "–" : recorded.model);
    rows[2].push_back(status_of(recorded));
    rows[3].push_back(recorded.parameters.empty() ? "–"
                                                  : fmt::format("{}", recorded.parameter_count));
    rows[4].push_back(duration_text(recorded.elapsed_s));
  }
  for (const std::string& name : figures_of(runs))
    for (const auto& [split, line] : {std::pair{"best validation", &RecordedRun::best_validation},
                                      std::pair{"test (best model)", &RecordedRun::test}}) {
      std::vector<std::string> row = {fmt::format("{}, {}", name, split)};
      for (const RecordedRun& recorded : runs) row.push_back(figure_text(recorded, line, name));
      if (std::any_of(row.begin() + 1, row.end(), [](auto& cell) { return !cell.empty(); }))
        rows.push_back(row);
    }
  if (std::ranges::any_of(runs, [](auto& one) { return !metrics_beside_baselines(one).empty(); })) {
    rows.push_back({"baselines"});
    for (const RecordedRun& recorded : runs) {
      const Metrics metrics = metrics_beside_baselines(recorded);
      rows.back().push_back(
          metrics.empty() ? "–" : comparison(recorded.baselines.begin()->second, metrics));
    }
  }
  return html_table(rows, {.stacks = true});
}

}  // namespace

std::string status_of(const RecordedRun& recorded) {
  if (recorded.seeds.empty()) return status_of_one(recorded);
  std::set<std::string> different;
  for (const RecordedRun& seed : recorded.seeds) different.insert(status_of_one(seed));
  return fmt::format("{} seeds: {}", recorded.seeds.size(), fmt::join(different, "; "));
}

std::string lead_of(const RecordedRun& recorded) {
  std::string html = recorded.model.empty() ? "" : "<p>" + html_text(recorded.model) + ".</p>\n";
  html += fmt::format("<p>Training: {}, {}.</p>\n", html_text(status_of(recorded)),
                      duration_text(recorded.elapsed_s));
  const std::string expected = setting(recorded, key::expected_metric.name);
  const bool tested = expected.starts_with("test_");
  const std::string reached =
      expected.empty()
          ? ""
          : figure_text(recorded, tested ? &RecordedRun::test : &RecordedRun::validation,
                        tested ? expected.substr(5) : expected);
  if (reached.empty()) return html;
  if (const std::string why = why_not_expected(recorded.settings, recorded.settings); !why.empty())
    return html + fmt::format("<p><b>{} {}</b>; not compared with the expected {}: {}.</p>\n",
                              html_text(expected), reached,
                              html_text(setting(recorded, key::expected_value.name)),
                              html_text(why));
  return html + fmt::format("<p><b>{} {}</b>; this config is expected to reach {} ({}).</p>\n",
                            html_text(expected), reached,
                            html_text(setting(recorded, key::expected_value.name)),
                            html_text(setting(recorded, key::expected_source.name)));
}

std::string overview_of(const std::vector<RecordedRun>& runs) {
  return (runs.size() == 1 ? figures_table(runs.front()) + baselines_table(runs.front())
                           : comparison_table(runs)) +
         meanings_of(runs);
}

std::string outcomes_of(const std::vector<RunGroup>& groups) {
  if (std::ranges::all_of(groups, [](const RunGroup& group) { return group.runs.size() == 1; }))
    return "";
  const Rows rows = difference_table(groups);
  if (rows.size() == 1) return "";
  return fmt::format("<h3>Comparison of the last evaluations with {}</h3>\n",
                     html_text(groups.front().name)) +
         html_table(rows, {.stacks = true});
}

std::string differences_of(const std::vector<RecordedRun>& runs) {
  Rows rows = {{"setting"}};
  std::vector<const ConfigSettings*> all;
  for (const RecordedRun& recorded : runs) {
    rows[0].push_back(recorded.name);
    all.push_back(&recorded.settings);
  }
  for (const std::string& name : names_that_differ(all)) {
    if (name == key::name.name || name.starts_with("expected.")) continue;
    rows.push_back({name});
    for (const ConfigSettings* settings : all)
      rows.back().push_back(settings->contains(name) ? settings->at(name) : "–");
  }
  if (rows.size() == 1) return "<p>The configs do not differ.</p>\n";
  return html_table(rows, {.stacks = true});
}

}  // namespace tapestry
