#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
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
  const auto measured_until = [&](std::int64_t row) -> double {
    while (row > 0 && std::isnan(values[row * M + series])) --row;
    return std::isnan(values[row * M + series]) ? 0 : values[row * M + series];
  };
  // The last measured value at the same place of a season of the context.
  const auto in_season = [&](std::int64_t origin, std::int64_t row) {
    for (std::int64_t at = row; at >= origin - windows.context; at -= season)
      if (!std::isnan(values[at * M + series])) return measured_until(at);
    return measured_until(row);
  };
  Errors errors;
  double count = 0;
  for (std::size_t k = 0; k < windows.origins.size(); ++k)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t origin = windows.origins[k];
      const double truth = values[(origin + h) * M + series];
      if (std::isnan(truth)) continue;
      ++count;
      errors.forecast += std::abs(said[(k * H + h) * M + series] - truth);
      errors.last_value += std::abs(measured_until(origin - 1) - truth);
      if (season > 0)
        errors.seasonal += std::abs(in_season(origin, origin - season + h % season) - truth);
    }
  return {errors.forecast / count, errors.last_value / count, errors.seasonal / count};
}

}  // namespace

ReportSection section_of(const ForecastWindows& windows) {
  const std::int64_t K = std::ssize(windows.origins), M = windows.values.dim(1);
  const std::int64_t season = windows.season;
  ReportSection section{
      .script = "forecast",
      .title = "Forecasts",
      .caption = fmt::format("{} of the test split, of {} of {} forecast series. Errors are in "
                             "the units of each series; the metrics above are of all forecast "
                             "series, scaled to variance 1.",
                             counted(K, "window"), M, windows.of_series)};
  section.data = {{"names", as_labels(windows.names)},
                  {"times", as_labels(windows.times)},
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
