#include "train/commands/compare_json.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

void add_interval(const Confidence& confidence, Json& to) {
  to["low"] = confidence.value - confidence.margin;
  to["high"] = confidence.value + confidence.margin;
  to["degrees"] = confidence.degrees;
}

// Returns the value of "verdict", which scripts read and which therefore never changes.
const char* verdict_of(FigureDifference::Outcome outcome) {
  using enum FigureDifference::Outcome;
  switch (outcome) {
    case no_significant_difference:
      return "cannot be told apart";
    case no_spread:
      return "no spread to judge by";
    case one_run:
      return "seeds unknown";
    default:
      return outcome_name(outcome);
  }
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

}  // namespace

std::vector<Json> json_of_runs(const std::vector<RunGroup>& groups) {
  std::vector<Json> objects;
  for (const RunGroup& group : groups)
    for (const ComparedRun& run : group.runs) {
      objects.push_back({{"run", run.folder}, {"parameters", run.parameters}});
      objects.back().update(run.evaluation);
    }
  return objects;
}

std::vector<Json> json_of_groups(const std::vector<RunGroup>& groups) {
  const std::vector<std::string> figures = measured_figures(groups);
  std::vector<Json> objects;
  for (const RunGroup& group : groups) objects.push_back(json_of(group, figures));
  for (auto other = groups.begin() + 1; other != groups.end(); ++other)
    objects.push_back(json_of(groups.front(), *other, figures));
  return objects;
}

}  // namespace tapestry
