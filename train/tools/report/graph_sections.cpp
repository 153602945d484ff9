#include <fmt/format.h>

#include "data/text/printable.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

std::vector<float> column(const Array& places, int axis) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < places.dim(0); ++i)
    values.push_back(places.values<float>()[2 * i + axis]);
  return values;
}

Array as_row(const std::vector<float>& values) { return Array::of(values, {std::ssize(values)}); }

JsonValue data_of(const PlacedGraph& graph, const std::vector<std::string>& class_names) {
  const std::int64_t N = graph.places.dim(0), E = std::ssize(graph.edges);
  std::vector<std::int32_t> ends;
  for (const auto& [from, to] : graph.edges) ends.insert(ends.end(), {from, to});
  JsonValue data = {{"title", printable(graph.title)},
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
  return data;
}

// Returns a table of the accuracy in each split.
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

}  // namespace

ReportSection section_of(const PlacedGraphs& graphs) {
  ReportSection section{
      .script = "graph",
      .title = "Predicted classes",
      .caption = graphs.graphs.front().predicted.empty()
                     ? "Graphs that the model was not trained on, with their predicted classes."
                     : "Nodes by their predicted class; a ring marks a wrong prediction."};
  if (!graphs.title.empty()) {
    section.title = graphs.title;
    section.caption = graphs.caption;
  } else if (!graphs.graphs.front().weights.empty()) {
    section.caption += " Strong edges are those with much attention.";
  }
  section.data["graphs"] = JsonValue::array();
  for (const PlacedGraph& graph : graphs.graphs) {
    section.data["graphs"].push_back(data_of(graph, graphs.class_names));
    if (!graph.split.empty()) section.fallback += table_of(graph);
  }
  return section;
}

}  // namespace tapestry
