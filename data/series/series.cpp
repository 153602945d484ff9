#include "data/series/series.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t month_s = 30 * day_s;

}  // namespace

std::int64_t SeriesTable::step_s() const {
  std::int64_t step = times[1] - times[0];
  for (std::size_t i = 2; i < times.size(); ++i) step = std::min(step, times[i] - times[i - 1]);
  return step;
}

std::string time_text(std::int64_t time_s) {
  const std::int64_t days = time_s / day_s - (time_s % day_s < 0), seconds = time_s - days * day_s;
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     seconds / 3600, seconds / 60 % 60, seconds % 60);
}

SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation) {
  const auto rows = static_cast<double>(table.rows());
  const auto first = std::llround(rows * train), second = std::llround(rows * (train + validation));
  return {{0, first}, {first, second}, {second, table.rows()}};
}

SeriesRanges split_by_months(const SeriesTable& table, const Months& months) {
  const auto row_after = [&](std::int64_t count) {
    const std::int64_t end = table.times.front() + count * month_s;
    expect_option(end <= table.times.back() + table.step_s(), "months",
                  "{}: {} + {} + {} months of 30 days end at {}, the file at {}", table.path,
                  months.train, months.validation, months.test, time_text(end),
                  time_text(table.times.back()));
    return std::ranges::lower_bound(table.times, end) - table.times.begin();
  };
  const std::int64_t third = row_after(months.train + months.validation + months.test),
                     second = row_after(months.train + months.validation),
                     first = row_after(months.train);
  return {{0, first}, {first, second}, {second, third}};
}

SeriesScale SeriesScale::of(const SeriesTable& table, const RowRange& rows) {
  const std::int64_t M = std::ssize(table.names);
  const auto count = static_cast<double>(rows.end - rows.begin);
  require(count >= 1, "SeriesScale: rows [{}, {})", rows.begin, rows.end);
  const auto values = table.values.values<float>();
  SeriesScale scale;
  for (std::int64_t m = 0; m < M; ++m) {
    double sum = 0, squares = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) sum += values[row * M + m];
    const double mean = sum / count;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      squares += std::pow(values[row * M + m] - mean, 2);
    scale.means.push_back(mean);
    scale.deviations.push_back(squares > 0 ? std::sqrt(squares / count) : 1);
  }
  return scale;
}

Array SeriesScale::apply(const Array& values) const {
  Array scaled = values.clone();
  const auto x = scaled.mutable_values<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t m = i % means.size();
    x[i] = static_cast<float>((x[i] - means[m]) / deviations[m]);
  }
  return scaled;
}

SeriesDataset::SeriesDataset(Array values, const RowRange& rows, const Window& window,
                             std::shared_ptr<const SeriesTable> table)
    : values_(std::move(values)),
      table_(std::move(table)),
      window_(window),
      first_(std::max(rows.begin, window.context)),
      last_(rows.end - window.horizon) {
  require(values_.rank() == 2 && rows.end <= values_.dim(0) && window.context >= 1 &&
              window.horizon >= 1 && first_ <= last_,
          "SeriesDataset: rows [{}, {}) of {} hold no window of {} and {} rows", rows.begin,
          rows.end, to_string(values_.shape()), window.context, window.horizon);
}

void SeriesDataset::add_to(Checksum& sum) const { sum.add(values_); }

Batch SeriesDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t T = window_.context, horizon = window_.horizon, M = values_.dim(1);
  Batch batch{.inputs = Array({B, T, M}),
              .targets = Array({B, horizon, M}),
              .count = static_cast<double>(B * horizon * M)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<float>().begin();
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "SeriesDataset: example {} of {}", example, size());
    const auto now = values_.values<float>().begin() + target_row(example) * M;
    input = std::copy(now - T * M, now, input);
    target = std::copy_n(now, horizon * M, target);
  }
  return batch;
}

}  // namespace tapestry
