#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
#include "data/series/series.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

// The mean |forecast - target| of a series over all windows, and those of two baselines: repeating
// the last value, and repeating the last season.
struct Errors {
  double forecast = 0, last_value = 0, seasonal = 0;
};
Errors mean_errors(const ForecastWindows& windows, std::int64_t series, std::int64_t season) {
  const std::int64_t M = windows.values.dim(1), H = windows.forecasts.dim(1);
  const auto values = windows.values.values<float>(), said = windows.forecasts.values<float>();
  Errors errors;
  for (std::size_t k = 0; k < windows.origins.size(); ++k)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t origin = windows.origins[k];
      const double truth = values[(origin + h) * M + series];
      errors.forecast += std::abs(said[(k * H + h) * M + series] - truth);
      errors.last_value += std::abs(values[(origin - 1) * M + series] - truth);
      if (season > 0)
        errors.seasonal += std::abs(values[(origin - season + h % season) * M + series] - truth);
    }
  const auto count = static_cast<double>(windows.origins.size() * H);
  return {errors.forecast / count, errors.last_value / count, errors.seasonal / count};
}

}  // namespace

ReportSection section_of(const ForecastWindows& windows) {
  const std::int64_t K = std::ssize(windows.origins), M = windows.values.dim(1);
  const std::int64_t season = season_of(windows.step_s, windows.context);
  ReportSection section{
      .script = "forecast",
      .title = "Forecasts",
      .caption = fmt::format("{} of the test split, of {} of {} forecast series. Errors are in "
                             "the units of each series; the metrics above are of all forecast "
                             "series, scaled to variance 1.",
                             counted(K, "window"), M, windows.of_series)};
  section.data = {{"names", as_labels(windows.names)},
                  {"start_s", windows.start_s},
                  {"step_s", windows.step_s},
                  {"context", windows.context},
                  {"season", season},
                  {"horizon", windows.forecasts.dim(1)},
                  {"values", as_floats(windows.values)},
                  {"origins", as_integers(windows.origins, {K})},
                  {"forecasts", as_floats(windows.forecasts)}};
  std::vector<std::vector<std::string>> rows = {
      {"series", "mean absolute error", "of the last value (naive)"}};
  if (season > 0) rows[0].push_back(fmt::format("of the last {} steps (seasonal naive)", season));
  for (std::int64_t series = 0; series < M; ++series) {
    const Errors errors = mean_errors(windows, series, season);
    rows.push_back({windows.names[series], fmt::format("{:.4g}", errors.forecast),
                    fmt::format("{:.4g}", errors.last_value)});
    if (season > 0) rows.back().push_back(fmt::format("{:.4g}", errors.seasonal));
  }
  section.fallback = html_table(rows);
  return section;
}

}  // namespace tapestry
