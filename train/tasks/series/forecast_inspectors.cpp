#include <algorithm>

#include "train/inspect/inspector.hpp"
#include "train/tasks/inspector_options.hpp"
#include "train/tasks/series/forecast.hpp"
#include "train/tasks/series/forecast_figure.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option("the time to forecast from, or \"end\"");
const Key<std::int64_t> count = count_option(8);
const Key<std::int64_t> index_of_series = index_option("the series to look at");

// The row whose time the prompt names; by default the last that leaves a horizon of rows.
std::int64_t first_row(const SeriesTable& table, const ForecasterOptions& window,
                       const std::string& named) {
  const std::int64_t T = window.context, H = window.horizon;
  expect_input(table.rows() >= T, "{}: {} rows, model.context needs {}", table.path, table.rows(),
               T);
  if (named.empty()) return std::max(T, table.rows() - H);
  if (named == "end" || table.rows() == T) return table.rows();
  const auto found =
      std::find_if(table.times.begin() + T, table.times.end(),
                   [&](std::int64_t time) { return time_text(time).starts_with(named); });
  expect_input(found != table.times.end(), "--prompt {}: expected a time from {} to {}, or \"end\"",
               named, time_text(table.times[T]), time_text(table.times.back()));
  return found - table.times.begin();
}

// In the series' own units, (M, horizon).
std::vector<std::vector<double>> forecasts_from(Forecast& task, std::int64_t first) {
  SeriesData& data = task.data();
  const std::int64_t T = task.model().options.context, M = data.values().dim(1);
  const auto seen = data.values().values<float>().subspan((first - T) * M, T * M);
  const Array y = task.model()
                      .forward(Array::of(std::vector<float>(seen.begin(), seen.end()), {1, T, M}))
                      .value();
  std::vector<std::vector<double>> forecasts(M);
  for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
    const std::size_t m = i % forecasts.size();
    forecasts[m].push_back(data.scale().undo(y.values<float>()[i], m));
  }
  return forecasts;
}

// A forecast from the row whose time the prompt names, by default of the last steps there are.
Sample sample(Forecast& task, const Options& options) {
  constexpr std::int64_t most_charts = 100;
  const SeriesTable& table = task.data().table();
  const ForecasterOptions& window = task.model().options;
  const std::int64_t first = first_row(table, window, options[prompt]);
  const ForecastView view{.table = table,
                          .first = first,
                          .context = window.context,
                          .horizon = window.horizon,
                          .forecasts = forecasts_from(task, first)};
  const std::int64_t charts = std::min({options[count], std::ssize(table.names), most_charts});
  return {.text = forecast_csv(view), .figure = forecast_figure(view, charts)};
}

// Of the series --index, in the window before the prompt's time. A patch is named by its first
// step.
AttentionMaps attention(Forecast& task, const Options& options) {
  const ForecasterOptions& window = task.model().options;
  expect_input(task.model().patches.has_value(), "a linear forecaster has no attention to draw");
  const SeriesTable& table = task.data().table();
  const std::int64_t M = std::ssize(table.names), series = options[index_of_series];
  expect_input(series < M, "--index {}: the series are 0 to {}", series, M - 1);
  AttentionRecorder recorder;
  forecasts_from(task, first_row(table, window, options[prompt]));
  std::vector<std::string> labels;
  for (std::int64_t step = 0; step + window.patch <= window.context; step += window.stride)
    labels.push_back(fmt::format("{}", step + 1 - window.context));
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries)
    maps.push_back({.path = path,
                    .weights = weights.select({series}).reshaped(
                        {weights.dim(1), weights.dim(2), weights.dim(3)}),
                    .queries = labels,
                    .keys = labels});
  return maps;
}

const RegisterInspector samples("forecast", {prompt, count}, &sample);
const RegisterInspector attentions("forecast", {prompt, index_of_series}, &attention);

}  // namespace
}  // namespace tapestry
