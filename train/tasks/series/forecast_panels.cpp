#include <algorithm>
#include <numeric>

#include "train/inspect/inspector.hpp"
#include "train/tasks/series/forecast.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_series = 8, most_windows = 100, windows_at_once = 16;
constexpr std::int64_t most_rows = 20'000;

// (N, width), of the first `count` columns, in the series' own units.
Array own_units(const Array& scaled, const SeriesScale& scale, std::int64_t count) {
  const std::int64_t M = scaled.dim(scaled.rank() - 1), N = scaled.size() / M;
  Array values({N, count});
  const auto from = scaled.values<float>();
  const auto to = values.mutable_values<float>();
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t m = 0; m < count; ++m)
      to[i * count + m] = static_cast<float>(scale.undo(from[i * M + m], m));
  return values;
}

// Examples all over the test split, or its first rows where these are many.
std::vector<std::int64_t> examples_of(const SeriesDataset& test, std::int64_t horizon) {
  const std::int64_t last = std::min(test.size(), most_rows) - 1;
  const std::int64_t apart =
      std::max(std::max<std::int64_t>(1, horizon / 4), last / most_windows + 1);
  std::vector<std::int64_t> examples;
  for (std::int64_t example = 0; example <= last; example += apart) examples.push_back(example);
  return examples;
}

// Forecasts of windows all over the test split.
ReportPanels panels(Forecast& task, const Options&) {
  SeriesData& data = task.data();
  const SeriesDataset& test = data.splits().test;
  const ForecasterOptions& window = task.model().options;
  const std::int64_t T = window.context, H = window.horizon;
  const std::int64_t shown = std::min(most_series, std::ssize(data.table().names));
  const std::vector<std::int64_t> examples = examples_of(test, H);
  const std::int64_t begin = test.target_row(0) - T;
  const std::int64_t end = test.target_row(examples.back()) + H;
  Array forecasts({std::ssize(examples), H, shown});
  ForecastWindows windows{.names = {data.table().names.begin(), data.table().names.begin() + shown},
                          .start_s = data.table().times[begin],
                          .step_s = data.table().step_s(),
                          .context = T,
                          .of_series = std::ssize(data.table().names)};
  for (std::int64_t first = 0; first < std::ssize(examples); first += windows_at_once) {
    const std::int64_t count = std::min(windows_at_once, std::ssize(examples) - first);
    const Batch batch = test.batch(std::span(examples).subspan(first, count));
    const Array said = own_units(task.model().forward(batch.inputs).value(), data.scale(), shown);
    forecasts.part(first * H * shown, (first + count) * H * shown)
        .copy_from(said.part(0, said.size()));
  }
  for (const std::int64_t example : examples)
    windows.origins.push_back(static_cast<std::int32_t>(test.target_row(example) - begin));
  std::vector<std::int64_t> rows(end - begin);
  std::iota(rows.begin(), rows.end(), begin);
  windows.values = own_units(data.values().select(rows), data.scale(), shown);
  windows.forecasts = forecasts;
  return {windows};
}

const RegisterInspector shown_windows("forecast", {}, &panels);

}  // namespace
}  // namespace tapestry
