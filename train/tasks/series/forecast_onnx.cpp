#include "train/inspect/onnx/models.hpp"
#include "train/tasks/series/forecast.hpp"

namespace tapestry {
namespace {

using onnx::Value;

// One number for each of the series.
Value row(onnx::Graph& graph, const std::vector<double>& numbers, const std::string& name) {
  const std::vector<float> values(numbers.begin(), numbers.end());
  return graph.constant(Array::of(values, {std::ssize(values)}), name);
}

// In the series' own units: the model itself knows them z-scored.
}  // namespace

onnx::Models forecast_graphs(Forecast& task) {
  const ForecasterOptions& options = task.model().options;
  const SeriesScale scale = kept_scale(task.metadata());
  const auto series = [&](const std::string& name, std::int64_t steps, const std::string& help) {
    return onnx::Described{
        .name = name, .shape = {"batch", steps, std::ssize(scale.means)}, .help = help};
  };
  auto graph = std::make_shared<onnx::Graph>("model", "What comes next in time series.");
  const onnx::Value past = graph->input(
      series("past", options.context, "the series as they were measured, the oldest step first"));
  const onnx::Value means = row(*graph, scale.means, "means"),
                    deviations = row(*graph, scale.deviations, "deviations");
  const onnx::Value forecast = onnx::forward(task.model(), (past - means) / deviations);
  graph->output(series("forecast", options.horizon, "the steps that follow"),
                forecast * deviations + means);
  return {graph};
}

}  // namespace tapestry
