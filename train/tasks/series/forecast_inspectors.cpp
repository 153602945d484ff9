#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/counted.hpp"
#include "autograd/ops/shaping.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/series/forecast.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option(
    "the time to forecast from, or \"end\" (default: the last window with known values)");
const Key<std::int64_t> count{
    "count", 8, "number of series in the figure, at most 100", {.low = 1, .high = 100000}};
const Key<std::int64_t> index_of_series = index_option("index of the series");

// A forecast of the K targets from row `first` on, with the rows before it.
struct ForecastView {
  const SeriesTable& table;       // of the targets
  std::int64_t first;             // row of the first forecast; may be rows()
  std::int64_t context, horizon;  // numbers of rows before `first` and from `first` on
  Array forecasts;                // (horizon, K) in the series' own units
};

// Returns the value of one of K series in a row of `values` (rows, K).
double value_at(const Array& values, std::int64_t row, std::int64_t series) {
  return values.values<double>()[row * values.dim(1) + series];
}

// Returns the values in the rows [begin, end), without rows that do not exist.
std::vector<double> values_in(const Array& values, std::int64_t begin, std::int64_t end,
                              std::int64_t series) {
  std::vector<double> found;
  for (std::int64_t row = begin; row < std::min(end, values.dim(0)); ++row)
    found.push_back(value_at(values, row, series));
  return found;
}

// Returns how many digits tell values of a series apart: six, or more for a series that changes
// little about a large value.
int digits_of(const Array& values, std::int64_t series) {
  double largest = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::int64_t row = 0; row < values.dim(0); ++row) {
    const double value = value_at(values, row, series);
    if (std::isnan(value)) continue;
    largest = std::max(largest, std::abs(value));
    least = std::min(least, value);
    most = std::max(most, value);
  }
  constexpr int usual = 6, of_double = 17;
  // A step between rows is a fraction of the range.
  const double apart = (most - least) / static_cast<double>(values.dim(0));
  if (!(apart > 0)) return usual;
  return std::clamp(static_cast<int>(std::ceil(std::log10(largest / apart))) + 2, usual, of_double);
}

// Returns the CSV "time,HUFL,HUFL forecast,…" with a line per row. Cells without a value and of
// values that were not measured are empty.
std::string forecast_csv(const ForecastView& view) {
  std::string text = "time";
  std::vector<int> digits;
  for (const std::string& name : view.table.names) {
    text += fmt::format(",{},{}", csv_quoted(name), csv_quoted(name + " forecast"));
    digits.push_back(digits_of(view.table.values, std::ssize(digits)));
  }
  text += '\n';
  for (std::int64_t row = view.first - view.context; row < view.first + view.horizon; ++row) {
    text += row_text(view.table, row);
    for (std::int64_t m = 0; m < view.forecasts.dim(1); ++m) {
      text += ',';
      const auto add = [&](double value) {
        if (!std::isnan(value)) text += fmt::format("{:.{}g}", value, digits[m]);
      };
      if (row < view.table.rows()) add(value_at(view.table.values, row, m));
      text += ',';
      if (row >= view.first) add(value_at(view.forecasts, row - view.first, m));
    }
    text += '\n';
  }
  return text;
}

// Returns a chart for each of the first `count` series. Step 0 is the last step of the context.
LineCharts forecast_figure(const ForecastView& view, std::int64_t count) {
  const std::int64_t first = view.first;
  const Array& known = view.table.values;
  LineCharts figure{.steps = fmt::format("steps after {}", row_text(view.table, first - 1))};
  for (std::int64_t m = 0; m < count; ++m) {
    Line forecast{"forecast", 0, values_in(view.forecasts, 0, view.horizon, m)};
    forecast.values.insert(forecast.values.begin(), value_at(known, first - 1, m));
    const std::int64_t end = first < known.dim(0) ? first + view.horizon : 0;
    figure.charts.push_back({view.table.names[m],
                             {{"history", 1 - static_cast<double>(view.context),
                               values_in(known, first - view.context, first, m)},
                              {"truth", 0, values_in(known, first - 1, end, m)},
                              forecast}});
  }
  return figure;
}

// Returns the first row to forecast: the row whose time the prompt names, or the one after the last
// row for "end"; by default the first row of the last horizon. Throws InputError if the table has
// fewer rows than a context, and for a time without a whole context before.
std::int64_t first_row(const SeriesTable& table, const ForecasterOptions& window,
                       const std::string& named) {
  const std::int64_t T = window.context, H = window.horizon;
  expect_input(table.rows() >= T, "{}: the file has {}; model.context needs {}; give more rows",
               table.path, counted(table.rows(), "row"), T);
  if (named.empty()) return std::max(T, table.rows() - H);
  if (named == "end" || table.rows() == T) return table.rows();
  for (std::int64_t row = T; row < table.rows(); ++row)
    if (row_text(table, row).starts_with(named)) return row;
  throw InputError(fmt::format("--prompt {}: expected a time from \"{}\" to \"{}\", or \"end\"",
                               named, row_text(table, T), row_text(table, table.rows() - 1)));
}

// Returns the forecast (horizon, K) in the series' own units; NaN for a series of which no value
// was measured in the context.
Array forecast_from(Forecast& task, std::int64_t first) {
  SeriesData& data = task.data();
  const std::int64_t T = task.model().options.context, M = data.values().dim(1);
  const Array seen = data.inputs_before(first).reshaped({1, T, M});
  const Array y = task.model().forward(seen, nullptr, data.place_before(first)).value();
  Array forecast = data.target_scale().undo(y).reshaped({y.dim(1), y.dim(2)});
  for (std::int64_t k = 0; k < forecast.dim(1); ++k)
    if (!data.is_target_measured(k, first - T, first))
      for (std::int64_t h = 0; h < forecast.dim(0); ++h)
        forecast.mutable_values<double>()[h * forecast.dim(1) + k] =
            std::numeric_limits<double>::quiet_NaN();
  return forecast;
}

Sample sample(Forecast& task, const Options& options) {
  constexpr std::int64_t most_charts = 100;
  const SeriesTable& table = task.data().targets();
  const ForecasterOptions& window = task.model().options;
  const std::int64_t first = first_row(table, window, options[prompt]);
  const ForecastView view{.table = table,
                          .first = first,
                          .context = window.context,
                          .horizon = window.horizon,
                          .forecasts = forecast_from(task, first)};
  const std::int64_t charts = std::min({options[count], std::ssize(table.names), most_charts});
  return {.text = forecast_csv(view), .figure = forecast_figure(view, charts)};
}

// Returns the attention of the target --index in the window before the prompt's time. The label of
// a patch is its first step. Throws InputError for a linear forecaster, and for an unknown series.
AttentionMaps attention(Forecast& task, const Options& options) {
  const ForecasterOptions& window = task.model().options;
  expect_input(
      task.model().patches.has_value(),
      "this forecaster has no attention to draw; give a run with model.kind = \"patches\"");
  const SeriesTable& table = task.data().targets();
  const std::int64_t K = std::ssize(table.names), index = options[index_of_series];
  expect_input(index < K, "--index {}: the series are 0 to {}; give one of these", index, K - 1);
  AttentionRecorder recorder;
  forecast_from(task, first_row(table, window, options[prompt]));
  std::vector<std::string> labels;
  for (std::int64_t step = 0; step + window.patch <= window.context; step += window.stride)
    labels.push_back(fmt::format("{}", step + 1 - window.context));
  return attention_maps(recorder, labels, window.targets.empty() ? index : window.targets[index]);
}

constexpr std::int64_t most_series = 8, most_windows = 100, windows_at_once = 16;
constexpr std::int64_t most_rows = 20'000;

// Returns the indices of at most 100 examples, evenly spaced over the first 20,000 of the test
// split, or over all if there are fewer.
std::vector<std::int64_t> examples_of(const SeriesDataset& test, std::int64_t horizon) {
  const std::int64_t last = std::min(test.size(), most_rows) - 1;
  const std::int64_t apart =
      std::max(std::max<std::int64_t>(1, horizon / 4), last / most_windows + 1);
  std::vector<std::int64_t> examples;
  for (std::int64_t example = 0; example <= last; example += apart) examples.push_back(example);
  return examples;
}

std::int64_t row_ahead(Forecast& task) {
  return first_row(task.data().targets(), task.model().options, "end");
}

std::vector<std::string> times_ahead(Forecast& task) {
  std::vector<std::string> times;
  for (std::int64_t h = 0; h < task.model().options.horizon; ++h)
    times.push_back(row_text(task.data().targets(), row_ahead(task) + h));
  return times;
}

std::vector<Prediction> forecasts_ahead(Forecast& task) {
  const Array forecasts = forecast_from(task, row_ahead(task));
  std::vector<Prediction> all(forecasts.dim(0));
  for (std::int64_t h = 0; h < forecasts.dim(0); ++h)
    for (std::int64_t k = 0; k < forecasts.dim(1); ++k) {
      const double value = value_at(forecasts, h, k);
      const auto digits = digits_of(task.data().targets().values, k);
      all[h].cells.push_back(std::isnan(value) ? "" : fmt::format("{:.{}g}", value, digits));
    }
  return all;
}

// --- ONNX ---

// Returns a constant with one number for each of the series.
onnx::Value row(onnx::Graph& graph, const std::vector<double>& numbers, const std::string& name) {
  const std::vector<float> values(numbers.begin(), numbers.end());
  return graph.constant(Array::of(values, {std::ssize(values)}), name);
}

}  // namespace

// Returns the inspector of a forecast from the row whose time --prompt names; by default, of the
// last rows.
Inspector<Sample> forecast_samples() { return {{prompt, count}, &sample}; }

// Forecasts the rows after the last one. Reads the data when examples are asked for.
Predictor forecast_predictor(Forecast& task) {
  Predictor predictor{.input = {.kind = PredictorInput::Kind::made, .fields = {{"time"}}}};
  for (const std::string& name : kept_names(task.metadata(), task.model().options.targets))
    predictor.columns.push_back({name, true});
  predictor.input.made = [&task] { return times_ahead(task); };
  predictor.predict = [&task, all = PredictExamples()](auto examples) mutable {
    if (!all) all = in_turn(forecasts_ahead(task));
    return all(examples);
  };
  return predictor;
}

Inspector<AttentionMaps> forecast_attention() { return {{prompt, index_of_series}, &attention}; }

// Returns a panel of forecasts of some windows of the test split.
ReportPanels forecast_panels(Forecast& task) {
  SeriesData& data = task.data();
  const SeriesDataset& test = data.splits().test;
  const ForecasterOptions& window = task.model().options;
  const std::int64_t T = window.context, H = window.horizon;
  const SeriesTable& table = data.targets();
  const std::int64_t shown = std::min(most_series, std::ssize(table.names));
  const std::vector<std::int64_t> examples = examples_of(test, H);
  const std::int64_t begin = test.target_row(0) - T;
  const std::int64_t end = test.target_row(examples.back()) + H;
  Array forecasts({std::ssize(examples), H, shown});
  ForecastWindows windows{.names = {table.names.begin(), table.names.begin() + shown},
                          .season = season_of(table.step, T),
                          .context = T,
                          .of_series = std::ssize(table.names)};
  for (std::int64_t first = 0; first < std::ssize(examples); first += windows_at_once) {
    const std::int64_t count = std::min(windows_at_once, std::ssize(examples) - first);
    const Batch batch = test.batch(std::span(examples).subspan(first, count));
    const auto* places = batch.find<CyclePlaces>();
    const Array y =
        task.model().forward(batch.inputs, nullptr, places ? places->first : Array()).value();
    const Array own_units = data.target_scale().undo(y).to(DType::float32);
    const Array said = slice(own_units, -1, 0, shown).value();
    forecasts.part(first * H * shown, (first + count) * H * shown)
        .copy_from(said.part(0, said.size()));
  }
  for (const std::int64_t example : examples) {
    windows.times.push_back(row_text(table, test.target_row(example)));
    windows.origins.push_back(static_cast<std::int32_t>(test.target_row(example) - begin));
  }
  windows.values =
      slice(slice(table.values, 0, begin, end), -1, 0, shown).value().to(DType::float32);
  windows.forecasts = forecasts;
  return {windows};
}

// Returns the graph, which reads and returns the series in their own units, although the model
// itself reads z-scores.
onnx::Models forecast_graphs(Forecast& task) {
  const ForecasterOptions& options = task.model().options;
  const SeriesScale scale = kept_scale(task.metadata()),
                    of_targets = kept_scale(task.metadata(), options.targets);
  const auto series = [&](const std::string& name, std::int64_t steps, const SeriesScale& of,
                          const std::string& help) {
    return onnx::Described{
        .name = name, .shape = {"batch", steps, std::ssize(of.means)}, .help = help};
  };
  auto graph = std::make_shared<onnx::Graph>("model", "Forecasts of time series.");
  const onnx::Value past = graph->input(series(
      "past", options.context, scale, "the series as they were measured, the oldest step first"));
  const onnx::Value means = row(*graph, scale.means, "means"),
                    deviations = row(*graph, scale.deviations, "deviations");
  std::optional<onnx::Value> first_step;
  if (options.cycle > 0)
    first_step =
        graph->input({.name = "first_step",
                      .type = onnx::Type::int64,
                      .shape = {"batch"},
                      .help = "number of the first step of the past: steps since "
                              "1970-01-01 00:00 by its clock, or rows if there are no times"});
  const onnx::Value forecast = onnx::forward(task.model(), (past - means) / deviations, first_step);
  graph->output(series("forecast", options.horizon, of_targets, "the steps that follow"),
                forecast * row(*graph, of_targets.deviations, "target_deviations") +
                    row(*graph, of_targets.means, "target_means"));
  return {graph};
}

}  // namespace tapestry
