#include <algorithm>
#include <cmath>

#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "layers/models/forecaster.hpp"
#include "train/tasks/language/transformer_keys.hpp"
#include "train/tasks/series/forecast_plot.hpp"
#include "train/tasks/series/series_data.hpp"

namespace tapestry {
namespace {

const Key<std::string> kind{"model.kind",
                            "patches",
                            "a patch transformer, or one linear layer",
                            {.choices = {"patches", "linear"}}};
const Key<std::int64_t> context{
    "model.context", 96, "steps the model sees", {.low = 1, .high = 100000}};
const Key<std::int64_t> horizon{
    "model.horizon", 96, "steps it forecasts", {.low = 1, .high = 100000}};
const Key<std::int64_t> patch{"model.patch", 16, "steps of a patch", {.low = 1, .high = 100000}};
const Key<std::int64_t> stride{
    "model.stride", 8, "steps from patch to patch", {.low = 1, .high = 100000}};
const Key<std::string> window_norm{"model.window_norm",
                                   "instance",
                                   "take a window's mean and deviation away, or its last value",
                                   {.choices = {"instance", "last"}}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {kind, context, horizon, patch, stride, window_norm});
  for (KeyInfo& key : series_keys()) all.push_back(std::move(key));
  return all;
}

Forecaster make_model(const Config& config) {
  const std::int64_t T = config[context], P = config[patch], S = config[stride];
  const bool linear = config[kind] == "linear";
  config.expect(linear || (P <= T && (T - P) % S == 0), patch,
                "patches every model.stride = {} steps do not end with model.context = {}; {} does",
                S, T, linear ? T : P + std::max<std::int64_t>(0, T - P) / S * S);
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  return Forecaster(
      {.context = T,
       .horizon = config[horizon],
       .patch = P,
       .stride = S,
       .layers = linear ? 0 : config[key::layers],
       .block = block_options(config),
       .positions = positions_of(config),
       .norm = config[window_norm] == "instance" ? WindowNorm::instance : WindowNorm::last},
      init);
}

double sum_of_distances(const Array& a, const Array& b) {
  double sum = 0;
  const Array x = a.to(DType::float64), y = b.to(DType::float64);
  for (std::size_t i = 0; i < x.values<double>().size(); ++i)
    sum += std::abs(x.values<double>()[i] - y.values<double>()[i]);
  return sum;
}

class Forecast final : public Task {
 public:
  explicit Forecast(const TaskSetup& setup)
      : config_(setup.config), trained_(setup.metadata), model_(make_model(config_)) {
    if (setup.needs_data) data().splits();
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return data().splits().train; }
  const Dataset& validation_data() override { return data().splits().validation; }
  const Dataset* test_data() override { return &data().splits().test; }
  SeriesData::Metadata metadata() const override { return data_ ? data_->metadata() : trained_; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor y = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
    const Array targets = batch.targets.to(y.dtype());
    const Tensor total = sum(squared_error(y, targets));
    Averages averages{{"loss", {total.item(), batch.count}}};
    if (!pass.training) averages["mae"] = {sum_of_distances(y.value(), targets), batch.count};
    return {total, averages};
  }

  void derive(Metrics& metrics) const override { metrics["mse"] = metrics.at("loss"); }

  // A forecast from the row whose time the prompt names, by default of the last steps there are.
  Sample sample(const SampleOptions& options) override {
    constexpr std::int64_t most_charts = 100;
    const std::int64_t M = std::ssize(data().table().names);
    const std::int64_t wanted = options.count > 0 ? options.count : 8;
    const std::int64_t first = first_row(options.prompt);
    const ForecastView view{.table = data().table(),
                            .first = first,
                            .context = config_[context],
                            .horizon = config_[horizon],
                            .forecasts = forecasts_from(first)};
    const std::string steps =
        fmt::format("steps after {}", time_text(data().table().times[first - 1]));
    return {.text = forecast_csv(view),
            .plot = [charts = forecast_charts(view, std::min({wanted, M, most_charts})),
                     steps](const std::string& path) { draw_lines(charts, steps, path); }};
  }

  // Of the series --index, in the window before the prompt's time. A patch is named by its first
  // step.
  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    expect_input(model_.patches.has_value(), "a linear forecaster has no attention to draw");
    const std::int64_t M = std::ssize(data().table().names);
    expect_input(options.index < M, "--index {}: the series are 0 to {}", options.index, M - 1);
    AttentionRecorder recorder;
    forecasts_from(first_row(options.prompt));
    std::vector<std::string> labels;
    for (std::int64_t step = 0; step + config_[patch] <= config_[context]; step += config_[stride])
      labels.push_back(fmt::format("{}", step + 1 - config_[context]));
    std::vector<AttentionMaps> maps;
    for (const auto& [path, weights] : recorder.entries)
      maps.push_back({.path = path,
                      .weights = weights.select({options.index})
                                     .reshaped({weights.dim(1), weights.dim(2), weights.dim(3)}),
                      .queries = labels,
                      .keys = labels});
    return maps;
  }

 private:
  SeriesData& data() {
    if (!data_)
      data_.emplace(config_, SeriesDataset::Window{config_[context], config_[horizon]}, trained_);
    return *data_;
  }

  std::int64_t first_row(const std::string& prompt) {
    const SeriesTable& table = data().table();
    const std::int64_t T = config_[context], H = config_[horizon];
    expect_input(table.rows() >= T, "{}: {} rows, model.context needs {}", table.path, table.rows(),
                 T);
    if (prompt.empty()) return std::max(T, table.rows() - H);
    if (prompt == "end" || table.rows() == T) return table.rows();
    const auto found =
        std::find_if(table.times.begin() + T, table.times.end(),
                     [&](std::int64_t time) { return time_text(time).starts_with(prompt); });
    expect_input(found != table.times.end(),
                 "--prompt {}: expected a time from {} to {}, or \"end\"", prompt,
                 time_text(table.times[T]), time_text(table.times.back()));
    return found - table.times.begin();
  }

  // In the series' own units, (M, horizon).
  std::vector<std::vector<double>> forecasts_from(std::int64_t first) {
    const std::int64_t T = config_[context], M = data().values().dim(1);
    const auto seen = data().values().values<float>().subspan((first - T) * M, T * M);
    const Array y =
        model_.forward(Array::of(std::vector<float>(seen.begin(), seen.end()), {1, T, M})).value();
    std::vector<std::vector<double>> forecasts(M);
    for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
      const std::size_t m = i % forecasts.size();
      forecasts[m].push_back(data().scale().undo(y.values<float>()[i], m));
    }
    return forecasts;
  }

  Config config_;
  SeriesData::Metadata trained_;    // a checkpoint's metadata, or empty
  std::optional<SeriesData> data_;  // read when first asked for
  Forecaster model_;
};

const RegisterTask registered("forecast", {"what comes next in several time series", keys(),
                                           [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                             return std::make_unique<Forecast>(setup);
                                           }});

}  // namespace
}  // namespace tapestry
