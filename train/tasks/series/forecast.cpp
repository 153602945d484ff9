#include "train/tasks/series/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "autograd/counted.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/table/table.hpp"
#include "data/text/labeled_table.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/series/baselines.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

enum class Kind { patches, linear, lstm, gru };

struct ForecastSettings : ForecasterOptions {
  Kind kind = Kind::patches;
};

const Condition is_transformer = key_is("model.kind", "patches"),
                has_patches = key_is("model.kind", "patches", "lstm", "gru");

const SettingsOf<ForecastSettings> forecast_settings = [] {
  using S = ForecastSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.patch", &S::patch, "time steps per patch",
          {.low = 1, .high = 100000, .used_if = {has_patches}}),
      Row("model.stride", &S::stride, "time steps between the starts of patches",
          {.low = 1, .high = 100000, .used_if = {has_patches}}),
      Row("model.kind", &S::kind,
          "a patch transformer, one linear layer, or a recurrent network that reads the patches",
          {{"patches", Kind::patches},
           {"linear", Kind::linear},
           {"lstm", Kind::lstm},
           {"gru", Kind::gru}}),
      Row("model.context", &S::context, "time steps that the model reads",
          {.low = 1, .high = 100000}),
      Row("model.horizon", &S::horizon, "time steps to forecast", {.low = 1, .high = 100000}),
      Row("model.window_norm", &S::norm,
          "normalize a window by its mean and deviation, or subtract its last value",
          {{"instance", WindowNorm::instance}, {"last", WindowNorm::last}}),
      Row("model.cycle", &S::cycle,
          "time steps of a learned cycle of each series, which is subtracted from what the model "
          "reads and added to the forecast; 0: none",
          {.low = 0, .high = 100000})};
}();

Forecaster make_model(const Config& config, const Given<SeriesSettings>& series) {
  const Given<ForecastSettings> given = forecast_settings.of(config);
  const std::int64_t T = given.context, P = given.patch, S = given.stride;
  const bool linear = given.kind == Kind::linear;
  given.expect(linear || (P <= T && (T - P) % S == 0), "patch",
               "with model.stride = {} the patches do not cover model.context = {} exactly; set "
               "model.context={}",
               S, T, linear ? T : P + std::max<std::int64_t>(0, T - P) / S * S);
  const Given<TransformerSettings> blocks = transformer_settings.of(config);
  ForecasterOptions options = given;
  if (given.kind == Kind::lstm || given.kind == Kind::gru)
    options.recurrent = recurrent_options(
        blocks, given.kind == Kind::lstm ? RecurrentKind::lstm : RecurrentKind::gru, P);
  options.layers = given.kind == Kind::patches ? blocks.layers : 0;
  if (given.kind == Kind::patches) options.block = block_options(blocks);
  options.series = given.cycle > 0 ? count_series(series) : std::ssize(series.columns);
  options.targets = target_indices(series);
  return initialized(config, [&](Random& init) { return Forecaster(options, init); });
}

// Returns 1 for each target that was measured, else 0; nothing if all were.
std::optional<Array> measured(const Array& targets) {
  const Array wide = targets.to(DType::float64);
  const auto x = wide.values<double>();
  if (std::ranges::none_of(x, [](double value) { return std::isnan(value); })) return std::nullopt;
  Array mask(targets.shape());
  std::ranges::transform(x, mask.mutable_values<float>().begin(),
                         [](double value) { return std::isnan(value) ? 0.0F : 1.0F; });
  return mask.to(targets.dtype());
}

// Returns the targets with 0 where none was measured.
Array without_gaps(const Array& targets) {
  Array filled = targets.to(DType::float64);
  for (double& value : filled.mutable_values<double>())
    if (std::isnan(value)) value = 0;
  return filled.to(targets.dtype());
}

// Returns the sum of |a - b| over (B, T, K), as sums of sums over each axis.
double sum_of_distances(const Array& a, const Array& b) {
  const Array wide_a = a.to(DType::float64), wide_b = b.to(DType::float64);
  const double *x = wide_a.values<double>().data(), *y = wide_b.values<double>().data();
  double sum = 0;
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    double of_example = 0;
    for (std::int64_t t = 0; t < a.dim(1); ++t) {
      double of_row = 0;
      for (std::int64_t k = 0; k < a.dim(2); ++k) of_row += std::abs(*x++ - *y++);
      of_example += of_row;
    }
    sum += of_example;
  }
  return sum;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::patches:
      return "patch transformer";
    case Kind::linear:
      return "linear model";
    case Kind::lstm:
      return "recurrent network (LSTM)";
    case Kind::gru:
      return "recurrent network (GRU)";
  }
  throw_unhandled("model");
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  const ForecastSettings model = forecast_settings.of(config);
  const SeriesSettings series = series_settings.of(config);
  return fmt::format(
      "a {} that forecasts {}{} from {}", name_of(model.kind), counted(model.horizon, "time step"),
      series.targets.empty()
          ? ""
          : fmt::format(" of {} of {} series", series.targets.size(), series.columns.size()),
      model.context);
}

// Returns the longest of some horizons of which a validation split of a tenth has several windows;
// for short series, one of which it has a window.
std::int64_t horizon_for(std::int64_t rows) {
  constexpr std::int64_t least_rows = 30;
  for (const std::int64_t wanted : {96, 48, 24, 16})
    if (rows / 10 >= wanted + 8) return wanted;
  return rows >= least_rows ? std::max<std::int64_t>(1, rows / 10 - 2) : 0;
}

// Returns how many rows the base's patches of 16 rows, 8 apart, read: those of the horizon or, of
// short series, a fifth.
std::int64_t context_for(std::int64_t rows, std::int64_t horizon) {
  if (rows >= 240) return horizon;
  return std::max<std::int64_t>(16, rows / 5 / 8 * 8);
}

std::vector<Recognized> recognize_forecast(const UserData& data) {
  const std::string& path = data.path;
  return {recognized_as("forecast", "time series", [&](Recognized& found) {
    const bool is_csv = has_csv_ending(path);
    if (is_csv ||
        (has_table_ending(path) && is_table_of_numbers(path) && !may_be_labeled_table(path, {})))
      found.fit = Recognized::Fit::similar;
    const SeriesTable table = recognize_series(found, data);
    const std::int64_t steps = horizon_for(table.rows());
    expect_input(steps > 0, "has {} rows, expected at least 30; give more rows", table.rows());
    // Several columns without times may be a table whose rows have no order.
    const bool has_texts = std::ranges::any_of(found.facts.items(), [](const auto& fact) {
      return fact.second.is_string() &&
             fact.second.template get<std::string>().starts_with("left out: texts");
    });
    const bool is_doubtful = !table.has_times && (has_texts || table.names.size() > 1 || !is_csv);
    found.fit = is_doubtful ? Recognized::Fit::on_request : Recognized::Fit::certain;
    if (is_doubtful)
      found.refusal =
          "no column has times; for a table without an order, choose the column to predict with "
          "--label";
    found.base = "etth1";
    found.settings.push_back({"model.context", context_for(table.rows(), steps),
                              fmt::format("rows that the model reads, of {}", table.rows())});
    found.settings.push_back({"model.horizon", steps, "rows that it forecasts"});
    found.examples = 0.7 * static_cast<double>(table.rows());
    found.most_epochs = 15;
  })};
}

// Returns the keys of blocks. A recurrent network has some of them.
std::vector<KeyInfo> forecast_block_keys() {
  const std::set<std::string> shared = {"model.layers", "model.width", "model.dropout",
                                        "model.bias"};
  std::vector<KeyInfo> keys =
      used_with(is_transformer, block_keys(), {shared.begin(), shared.end()});
  for (KeyInfo& key : keys)
    if (shared.contains(key.name)) key.limits.used_if.push_back(has_patches);
  return keys;
}

TaskSpec spec() {
  using enum MetricInfo::Better;
  const std::vector<std::string> horizon_key = {"model.horizon"};
  return {.name = "forecast",
          .help = "forecasts of several time series",
          .describe = description,
          .keys = joined({forecast_block_keys(), forecast_settings.keys(), series_settings.keys()}),
          .make = make_task_of<Forecast>,
          .detect = detect_series,
          .recognize = recognize_forecast,
          .metrics = {{.name = "loss",
                       .better = lower,
                       .meaning = "the mean squared error of the z-scored targets",
                       .settings = horizon_key},
                      {.name = "mse",
                       .better = lower,
                       .meaning = "the mean squared error of the z-scored targets",
                       .settings = horizon_key},
                      {.name = "mae",
                       .better = lower,
                       .meaning = "the mean absolute error of the z-scored targets",
                       .settings = horizon_key}},
          .samples = forecast_samples(),
          .predictor = forecast_predictor,
          .attention = forecast_attention(),
          .panels = forecast_panels,
          .onnx = forecast_graphs,
          .reads_whole_data = true,
          .predicts_whole_data = true};
}

const RegisterTask registered(spec);

}  // namespace

Forecast::Forecast(const TaskSetup& setup)
    : series_(series_settings.of(setup.config)),
      trained_(setup.metadata),
      whole_data_(setup.whole_data),
      model_(make_model(setup.config, series_)) {
  if (!trained_.empty()) {  // throws if they are damaged
    kept_scale(trained_, model_.options.targets);
    kept_names(trained_, model_.options.targets);
  }
  if (setup.needs_data) data().splits();
}

SeriesData& Forecast::data() {
  const ForecasterOptions& options = model_.options;
  if (!data_)
    data_.emplace(series_,
                  SeriesDataset::Window{.context = options.context,
                                        .horizon = options.horizon,
                                        .targets = options.targets,
                                        .cycle = options.cycle},
                  trained_, whole_data_);
  return *data_;
}

Loss Forecast::loss(const Batch& batch, const Pass& pass) {
  const auto* places = batch.find<CyclePlaces>();
  Tensor y = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr,
                            places ? places->first : Array());
  Array targets = batch.targets.to(y.dtype());
  if (const std::optional<Array> mask = measured(targets)) {
    y = y * Tensor(*mask);
    targets = without_gaps(targets);
  }
  const Tensor total = sum(squared_error(y, targets));
  MetricSums averages{{"loss", {total.item(), batch.count}}};
  if (!pass.training) averages["mae"] = {sum_of_distances(y.value(), targets), batch.count};
  return {total, averages};
}

std::vector<Baselines> Forecast::baselines(JudgedSplits judged) {
  const SeriesTable& table = this->data().targets();
  const std::int64_t season = season_of(table.step, model_.options.context);
  const SeriesDataset* training = whole_data_ ? nullptr : &this->data().splits().train;
  std::vector<Baselines> all;
  for (const Dataset* data : judged) {
    Baselines& of_split = all.emplace_back();
    for (const BaselineErrors& errors : baseline_errors(training, *data->series(), season)) {
      Metrics metrics{{"loss", errors.mse}, {"mae", errors.mae}};
      add_derived_metrics(metrics);
      of_split.push_back({errors.name, std::move(metrics)});
    }
  }
  return all;
}

}  // namespace tapestry
