#include "train/tools/report/overview.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "train/config/keys.hpp"
#include "train/measure/quantities.hpp"
#include "train/measure/statistics.hpp"
#include "train/tools/report/expectation.hpp"
#include "train/tools/report/figures.hpp"
#include "train/tools/report/html.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Rows = std::vector<std::vector<std::string>>;

std::string setting(const RunStory& story, const std::string& name) {
  const auto found = story.settings.find(name);
  if (found == story.settings.end()) return "";
  const std::string& value = found->second;
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
}

// One of a story's lines of metrics.
using Line = Json RunStory::*;

std::vector<double> measured(const RunStory& story, Line line, const std::string& name) {
  std::vector<double> values;
  const auto add = [&](const RunStory& one) {
    const Json& read = one.*line;
    if (!read.is_null() && read.contains(name) && read[name].is_number())
      values.push_back(read[name].get<double>());
  };
  add(story);
  if (story.seeds.empty()) return values;
  values.clear();
  for (const RunStory& seed : story.seeds) add(seed);
  return values;
}

// "1.886", or of seeds "0.8150 ± 0.0070"; empty where it was not measured.
std::string figure_text(const RunStory& story, Line line, const std::string& name) {
  const std::vector<double> values = measured(story, line, name);
  if (values.empty()) return "";
  const Estimate estimate = estimate_of(values);
  const std::string mean = fmt::format("{:.5g}", estimate.mean);
  return story.seeds.empty() ? mean : fmt::format("{} ± {:.2g}", mean, estimate.deviation);
}

std::set<std::string> figures_of(std::span<const RunStory> stories) {
  std::set<std::string> names;
  for (const RunStory& story : stories)
    for (const Json& line : {story.validation, story.test})
      for (const auto& [name, value] : line.items())
        if (value.is_number() && name != "step" && name != "elapsed_s") names.insert(name);
  return names;
}

std::int64_t step_of(const Json& line) {
  return line.is_null() ? 0 : line["step"].get<std::int64_t>();
}

std::string status_of_one(const RunStory& story) {
  if (story.is_trained)
    return fmt::format("is being trained, step {} of {}", story.last_step,
                       story.steps() > 0 ? fmt::to_string(story.steps()) : "?");
  if (story.last_step == 0 && story.curves.empty()) return "was not trained here";
  return outcome(
      story.sessions,
      {.step = story.last_step, .steps = story.steps(), .is_tested = !story.test.is_null()});
}

std::string meanings_of(const std::vector<RunStory>& stories) {
  std::set<std::string> shown = figures_of(stories);
  for (const RunStory& story : stories)
    for (const Curve& curve : story.curves) shown.insert(curve.metric);
  std::vector<std::pair<std::string, std::string>> facts;
  for (const MeasuredFigure& figure : known_figures())
    if (shown.contains(figure.name)) facts.emplace_back(figure.name, figure.meaning);
  return facts.empty() ? "" : html_details("What these figures mean", html_facts(facts));
}

// A row a figure, a column for each of these lines of one run.
std::string figures_table(const RunStory& story) {
  const bool same = step_of(story.best_validation) == step_of(story.validation);
  std::vector<std::pair<std::string, Line>> columns = {
      {"best validation", &RunStory::best_validation}};
  if (!same || !story.seeds.empty()) columns.emplace_back("last validation", &RunStory::validation);
  if (!story.test.is_null()) columns.emplace_back("test of the best", &RunStory::test);
  Rows rows = {{""}};
  for (const auto& [name, line] : columns)
    rows[0].push_back(story.seeds.empty() ? fmt::format("{}, step {}", name, step_of(story.*line))
                                          : name);
  for (const std::string& figure : figures_of(std::span(&story, 1))) {
    rows.push_back({figure});
    for (const auto& [name, line] : columns)
      rows.back().push_back(figure_text(story, line, figure));
  }
  return rows.size() > 1 ? html_table(rows) : "";
}

// A row a figure, a column a run.
std::string comparison_table(const std::vector<RunStory>& stories) {
  Rows rows = {{""}, {"state"}, {"parameters"}, {"time of training"}};
  for (const RunStory& story : stories) {
    rows[0].push_back(story.name);
    rows[1].push_back(status_of(story));
    rows[2].push_back(story.parameters.empty() ? "–" : fmt::format("{}", story.count_parameters()));
    rows[3].push_back(duration_text(story.elapsed_s));
  }
  for (const std::string& name : figures_of(stories))
    for (const auto& [split, line] : {std::pair{"best validation", &RunStory::best_validation},
                                      std::pair{"test of the best", &RunStory::test}}) {
      std::vector<std::string> row = {fmt::format("{}, {}", name, split)};
      for (const RunStory& story : stories) row.push_back(figure_text(story, line, name));
      if (std::any_of(row.begin() + 1, row.end(), [](auto& cell) { return !cell.empty(); }))
        rows.push_back(row);
    }
  return html_table(rows);
}

}  // namespace

std::string status_of(const RunStory& story) {
  if (story.seeds.empty()) return status_of_one(story);
  std::set<std::string> different;
  for (const RunStory& seed : story.seeds) different.insert(status_of_one(seed));
  return fmt::format("{} seeds: {}", story.seeds.size(), fmt::join(different, "; "));
}

std::string lead_of(const RunStory& story) {
  std::string html;
  const auto type = task_registry().find(setting(story, key::task.name));
  if (type != task_registry().end())
    html = fmt::format(
        "<p>This is {}: {}, {} of training{}.</p>\n", html_text(type->second.help),
        html_text(status_of(story)), duration_text(story.elapsed_s),
        story.parameters.empty() ? "" : fmt::format(", {} parameters", story.count_parameters()));
  const std::string expected = setting(story, key::expected_metric.name);
  const bool tested = expected.starts_with("test_");
  const std::string reached =
      expected.empty() ? ""
                       : figure_text(story, tested ? &RunStory::test : &RunStory::validation,
                                     tested ? expected.substr(5) : expected);
  if (reached.empty()) return html;
  if (const std::string why = why_not_expected(story.settings, story.settings); !why.empty())
    return html + fmt::format("<p><b>{} {}</b>; not compared with the expected {}: {}.</p>\n",
                              html_text(expected), reached,
                              html_text(setting(story, key::expected_value.name)), html_text(why));
  return html + fmt::format("<p><b>{} {}</b>; this config is expected to reach {} ({}).</p>\n",
                            html_text(expected), reached,
                            html_text(setting(story, key::expected_value.name)),
                            html_text(setting(story, key::expected_source.name)));
}

std::string overview_of(const std::vector<RunStory>& stories) {
  return (stories.size() == 1 ? figures_table(stories.front()) : comparison_table(stories)) +
         meanings_of(stories);
}

std::string differences_of(const std::vector<RunStory>& stories) {
  std::set<std::string> names;
  for (const RunStory& story : stories)
    for (const auto& [name, value] : story.settings) names.insert(name);
  Rows rows = {{"setting"}};
  for (const RunStory& story : stories) rows[0].push_back(story.name);
  for (const std::string& name : names) {
    std::vector<std::string> row = {name};
    for (const RunStory& story : stories) {
      const auto found = story.settings.find(name);
      row.push_back(found == story.settings.end() ? "–" : found->second);
    }
    const bool differ =
        std::adjacent_find(row.begin() + 1, row.end(), std::not_equal_to()) != row.end();
    if (differ && name != key::name.name && !name.starts_with("expected.")) rows.push_back(row);
  }
  if (rows.size() == 1) return "<p>Their configs do not differ.</p>\n";
  return html_table(rows);
}

}  // namespace tapestry
