#pragma once

#include "data/series/series.hpp"
#include "train/plot/figure.hpp"

namespace tapestry {

// What a model says of the M series from a row on, beside what was seen before and measured then.
struct ForecastView {
  const SeriesTable& table;
  std::int64_t first;                          // row of the first forecast; rows() where none is
  std::int64_t context, horizon;               // rows before and from it on
  std::vector<std::vector<double>> forecasts;  // (M, horizon) in the series' own units
};

// "time,HUFL,HUFL forecast,…", a row a step; empty where nothing was measured or forecast.
std::string forecast_csv(const ForecastView& view);

// One chart a series, of the first `count`. Step 0 is the last that was seen.
LineCharts forecast_figure(const ForecastView& view, std::int64_t count);

}  // namespace tapestry
