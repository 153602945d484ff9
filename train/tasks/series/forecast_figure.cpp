#include "train/tasks/series/forecast_figure.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tapestry {
namespace {

double value_at(const SeriesTable& table, std::int64_t row, std::size_t series) {
  const std::int64_t M = std::ssize(table.names);
  return table.values.values<float>()[(row * M) + series];
}

// In rows [begin, end), as far as they are known.
std::vector<double> measured(const SeriesTable& table, std::int64_t begin, std::int64_t end,
                             std::size_t series) {
  std::vector<double> values;
  for (std::int64_t row = begin; row < std::min(end, table.rows()); ++row)
    values.push_back(value_at(table, row, series));
  return values;
}

std::int64_t time_of(const SeriesTable& table, std::int64_t row) {
  if (row < table.rows()) return table.times[row];
  return table.times.back() + (row - table.rows() + 1) * table.step_s();
}

}  // namespace

std::string forecast_csv(const ForecastView& view) {
  std::string text = "time";
  for (const std::string& name : view.table.names)
    text += fmt::format(",{},{} forecast", name, name);
  text += '\n';
  for (std::int64_t row = view.first - view.context; row < view.first + view.horizon; ++row) {
    text += time_text(time_of(view.table, row));
    for (std::size_t m = 0; m < view.forecasts.size(); ++m) {
      text += ',';
      if (row < view.table.rows()) text += fmt::format("{:.6g}", value_at(view.table, row, m));
      text += ',';
      if (row >= view.first) text += fmt::format("{:.6g}", view.forecasts[m][row - view.first]);
    }
    text += '\n';
  }
  return text;
}

LineCharts forecast_figure(const ForecastView& view, std::int64_t count) {
  const std::int64_t first = view.first;
  LineCharts figure{.steps = fmt::format("steps after {}", time_text(view.table.times[first - 1]))};
  for (std::int64_t m = 0; m < count; ++m) {
    Line forecast{"forecast", 0, {value_at(view.table, first - 1, m)}};
    forecast.values.insert(forecast.values.end(), view.forecasts[m].begin(),
                           view.forecasts[m].end());
    const bool known = first < view.table.rows();
    figure.charts.push_back({view.table.names[m],
                             {{"history", 1 - static_cast<double>(view.context),
                               measured(view.table, first - view.context, first, m)},
                              {"truth", 0,
                               known ? measured(view.table, first - 1, first + view.horizon, m)
                                     : std::vector<double>{}},
                              forecast}});
  }
  return figure;
}

}  // namespace tapestry
