#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/series/series.hpp"
#include "data/text/text.hpp"
#include "train/report/html.hpp"
#include "train/report/page_data.hpp"
#include "train/report/page_part.hpp"
#include "train/report/plot.hpp"

// Of forecasts, graphs and memories.
namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

// The mean of |forecast - truth| of a series over all windows, beside that of its last value.
struct Errors {
  double forecast = 0, last_value = 0;
};
Errors mean_errors(const ForecastWindows& windows, std::int64_t series) {
  const std::int64_t M = windows.values.dim(1), H = windows.forecasts.dim(1);
  const auto values = windows.values.values<float>(), said = windows.forecasts.values<float>();
  Errors errors;
  for (std::size_t k = 0; k < windows.origins.size(); ++k)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t origin = windows.origins[k];
      const double truth = values[(origin + h) * M + series];
      errors.forecast += std::abs(said[(k * H + h) * M + series] - truth);
      errors.last_value += std::abs(values[(origin - 1) * M + series] - truth);
    }
  const auto count = static_cast<double>(windows.origins.size() * H);
  return {errors.forecast / count, errors.last_value / count};
}

// The last window of a series: what came before, the truth and the forecast.
std::string plot_of(const ForecastWindows& windows, std::int64_t series) {
  const std::int64_t M = windows.values.dim(1), H = windows.forecasts.dim(1);
  const std::int64_t origin = windows.origins.back(), last = std::ssize(windows.origins) - 1;
  PlotLine truth{.name = "measured"}, forecast{.name = "forecast"};
  const auto add = [](PlotLine& line, std::int64_t step, float value) {
    line.points.push_back({static_cast<double>(step), value, value, value});
  };
  for (std::int64_t row = std::max<std::int64_t>(0, origin - 2 * H); row < origin + H; ++row)
    add(truth, row - origin, windows.values.values<float>()[row * M + series]);
  for (std::int64_t h = 0; h < H; ++h)
    add(forecast, h, windows.forecasts.values<float>()[(last * H + h) * M + series]);
  const std::int64_t time = windows.start_s + origin * windows.step_s;
  return svg_lines(windows.names[series] + ", the last window", "steps from " + time_text(time),
                   {truth, forecast});
}

std::vector<float> column(const Array& places, int axis) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < places.dim(0); ++i)
    values.push_back(places.values<float>()[2 * i + axis]);
  return values;
}

Array as_row(const std::vector<float>& values) { return Array::of(values, {std::ssize(values)}); }

Json data_of(const PlacedGraph& graph, const std::vector<std::string>& class_names) {
  const std::int64_t N = graph.places.dim(0), E = std::ssize(graph.edges);
  std::vector<std::int32_t> ends;
  for (const auto& [from, to] : graph.edges) ends.insert(ends.end(), {from, to});
  Json data = {{"title", printable(graph.title)},
               {"class_names", as_labels(class_names)},
               {"x", as_floats(as_row(column(graph.places, 0)))},
               {"y", as_floats(as_row(column(graph.places, 1)))},
               {"names", graph.names.empty() ? as_labels(std::vector<std::string>(N))
                                             : as_labels(graph.names)},
               {"edges", as_integers(ends, {E, 2})}};
  if (!graph.truth.empty()) data["truth"] = as_integers(graph.truth, {N});
  if (!graph.predicted.empty()) data["predicted"] = as_integers(graph.predicted, {N});
  if (!graph.split.empty()) data["split"] = as_labels(graph.split);
  if (!graph.weights.empty()) data["weights"] = as_floats(as_row(graph.weights));
  if (!graph.truth_class.empty()) data["truth_class"] = printable(graph.truth_class);
  if (!graph.predicted_class.empty()) data["predicted_class"] = printable(graph.predicted_class);
  return data;
}

// How many nodes of each split it tells the class of.
std::string table_of(const PlacedGraph& graph) {
  std::vector<std::vector<std::string>> rows = {{"split", "nodes", "right", "share"}};
  for (const char* split : {"train", "val", "test"}) {
    std::int64_t nodes = 0, right = 0;
    for (std::size_t i = 0; i < graph.split.size(); ++i)
      if (graph.split[i] == split) {
        ++nodes;
        right += graph.predicted[i] == graph.truth[i];
      }
    if (nodes > 0)
      rows.push_back({split, fmt::format("{}", nodes), fmt::format("{}", right),
                      fmt::format("{:.3f}", static_cast<double>(right) / nodes)});
  }
  return html_table(rows);
}

std::string fallback_of(const PlacedGraph& graph) {
  constexpr std::size_t most_edges = 1500;  // that a plot without scripts shows
  std::string html = graph.split.empty() ? "" : table_of(graph);
  if (graph.edges.size() <= most_edges)
    html += svg_nodes(graph.title,
                      {.places = graph.places, .classes = graph.predicted, .edges = graph.edges});
  return html;
}

using Ladder = std::vector<std::pair<std::string, AgesRemembered>>;

// Of the questions about items of ages [begin, end); empty where there are none.
std::string share_of(const AgesRemembered& remembered, std::size_t begin, std::size_t end) {
  double right = 0, asked = 0;
  for (std::size_t age = begin; age < end; ++age) {
    const auto questions = static_cast<double>(remembered.asked[age]);
    right += remembered.shares[age] * questions;
    asked += questions;
  }
  return asked == 0 ? "" : fmt::format("{:.3f}", right / asked);
}

std::vector<double> chances_of(const Ladder& ladder) {
  std::set<double> different;
  for (const auto& [run, remembered] : ladder) different.insert(remembered.chance);
  return {different.begin(), different.end()};
}

}  // namespace

PagePart part_of(const ForecastWindows& windows) {
  const std::int64_t K = std::ssize(windows.origins), M = windows.values.dim(1);
  PagePart part{
      .script = "forecast",
      .title = "What it forecasts",
      .caption = fmt::format(
          "{} windows of the test split, which it was not trained on, of {} of {} series. Errors "
          "are in "
          "a series' own units; the figures above are of all of them, scaled to variance 1.",
          K, M, windows.of_series)};
  part.data = {{"names", as_labels(windows.names)},
               {"start_s", windows.start_s},
               {"step_s", windows.step_s},
               {"context", windows.context},
               {"horizon", windows.forecasts.dim(1)},
               {"values", as_floats(windows.values)},
               {"origins", as_integers(windows.origins, {K})},
               {"forecasts", as_floats(windows.forecasts)}};
  std::vector<std::vector<std::string>> rows = {
      {"series", "mean absolute error", "of repeating the last value"}};
  for (std::int64_t series = 0; series < M; ++series) {
    const Errors errors = mean_errors(windows, series);
    rows.push_back({windows.names[series], fmt::format("{:.4g}", errors.forecast),
                    fmt::format("{:.4g}", errors.last_value)});
  }
  part.fallback = html_table(rows) + plot_of(windows, 0);
  return part;
}

PagePart part_of(const PlacedGraphs& graphs) {
  PagePart part{
      .script = "graph",
      .title = "What it sees in the graph",
      .caption = graphs.graphs.front().predicted.empty()
                     ? "Graphs that it was not trained on, and what it takes them for."
                     : "Nodes by what the model takes them for; a ring says where it errs."};
  if (!graphs.graphs.front().weights.empty())
    part.caption += " The stronger an edge, the more its ends attend to each other.";
  part.data["graphs"] = Json::array();
  for (const PlacedGraph& graph : graphs.graphs) {
    part.data["graphs"].push_back(data_of(graph, graphs.class_names));
    part.fallback += fallback_of(graph);
  }
  return part;
}

PagePart part_of(const Ladder& ladder) {
  PagePart part{.script = "ages",
                .title = ladder.size() > 1 ? "The ladder: what each memory remembers"
                                           : "What it remembers, by age",
                .caption =
                    "It reads items such as “e1”, which says that e has the value 1, and is then "
                    "asked “e?”: the share of held-back questions that it answers right, by "
                    "how many items passed since."};
  part.data = {{"title", ""},
               {"x", "items that passed since"},
               {"y", "share answered right"},
               {"chances", chances_of(ladder)},
               {"lines", Json::array()}};
  std::vector<PlotLine> lines;
  std::vector<std::vector<std::string>> rows = {{"run", "the last quarter", "the first quarter"}};
  for (const auto& [run, remembered] : ladder) {
    PlotLine line{.name = run};
    Json points = Json::array();
    const std::size_t ages = remembered.shares.size(), quarter = ages / 4;
    for (std::size_t age = 0; age < ages; ++age) {
      if (remembered.asked[age] == 0) continue;
      const double share = remembered.shares[age];
      points.push_back({age, std::round(share * 1e4) / 1e4});
      line.points.push_back({static_cast<double>(age), share, share, share});
    }
    part.data["lines"].push_back({{"run", printable(run)}, {"points", points}});
    lines.push_back(line);
    rows.push_back(
        {run, share_of(remembered, 0, quarter), share_of(remembered, ages - quarter, ages)});
  }
  part.fallback = html_table(rows) + svg_lines(part.title, "items that passed since", lines);
  return part;
}

}  // namespace tapestry
