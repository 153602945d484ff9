#include "data/series/series.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <xtensor/xadapt.hpp>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/random.hpp"
#include "autograd/xtensor.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t month_s = 30 * day_s;

struct Wave {
  double period, amplitude, phase;
};

std::vector<Wave> draw_waves(Random& random) {
  std::vector<Wave> waves(3);
  for (Wave& wave : waves)
    wave = {random.uniform(6, 60), random.uniform(0.5, 1), random.uniform(0, 2 * std::numbers::pi)};
  return waves;
}

double height(const std::vector<Wave>& waves, double row) {
  double sum = 0;
  for (const Wave& wave : waves)
    sum += wave.amplitude * std::sin(2 * std::numbers::pi * row / wave.period + wave.phase);
  return sum;
}

}  // namespace

std::int64_t SeriesTable::step_s() const {
  std::int64_t step = times[1] - times[0];
  for (std::size_t i = 2; i < times.size(); ++i) step = std::min(step, times[i] - times[i - 1]);
  return step;
}

std::string row_text(const SeriesTable& table, std::int64_t row) {
  if (!table.has_times) return fmt::format("row {}", row + 1);
  const std::int64_t beyond = row - table.rows() + 1;
  return time_text(beyond > 0 ? table.times.back() + beyond * table.step_s() : table.times[row]);
}

std::int64_t season_of(std::int64_t step_s, std::int64_t context) {
  const std::int64_t season = step_s > 0 && step_s < day_s && day_s % step_s == 0 ? day_s / step_s
                              : step_s == day_s                                   ? 7
                              : step_s >= 28 * day_s && step_s <= 31 * day_s      ? 12
                                                                                  : 0;
  return season <= context ? season : 0;
}

SeriesTable make_waves(const WaveOptions& options) {
  const std::int64_t M = options.series, rows = options.rows;
  require(M >= 1 && rows >= 2,
          "make_waves: {} series of {} rows; expected at least 1 series of 2 rows", M, rows);
  SeriesTable table{.path = "waves", .values = Array({rows, M})};
  const auto values = table.values.mutable_values<float>();
  for (std::int64_t m = 0; m < M; ++m) {
    Random random(options.seed, Stream::data, static_cast<std::uint64_t>(m));
    const std::vector<Wave> waves = draw_waves(random);
    table.names.push_back(fmt::format("wave {}", m + 1));
    for (std::int64_t row = 0; row < rows; ++row)
      values[row * M + m] = static_cast<float>(height(waves, static_cast<double>(row)) +
                                               options.noise * random.normal());
  }
  constexpr std::int64_t first = 946'684'800, hour_s = 3600;  // 2000-01-01 00:00:00
  for (std::int64_t row = 0; row < rows; ++row) table.times.push_back(first + row * hour_s);
  return table;
}

SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation) {
  const auto rows = static_cast<double>(table.rows());
  const auto first = std::llround(rows * train), second = std::llround(rows * (train + validation));
  return {{0, first}, {first, second}, {second, table.rows()}};
}

SeriesRanges split_by_months(const SeriesTable& table, const Months& months) {
  const auto row_after = [&](std::int64_t count) {
    const std::int64_t end = table.times.front() + count * month_s;
    expect_option(end <= table.times.back() + table.step_s(), "train_months",
                  "{}: {} + {} + {} months of 30 days end at {}, but the file ends at {}; expected "
                  "fewer months",
                  table.path, months.train, months.validation, months.test, time_text(end),
                  time_text(table.times.back()));
    return std::ranges::lower_bound(table.times, end) - table.times.begin();
  };
  const std::int64_t third = row_after(months.train + months.validation + months.test),
                     second = row_after(months.train + months.validation),
                     first = row_after(months.train);
  return {{0, first}, {first, second}, {second, third}};
}

SeriesScale SeriesScale::of(const SeriesTable& table, const RowRange& rows) {
  require(rows.begin < rows.end, "SeriesScale: rows [{}, {}); expected at least one row",
          rows.begin, rows.end);
  const std::int64_t M = table.values.dim(1);
  const float* x = table.values.values<float>().data();
  const auto count = static_cast<double>(rows.end - rows.begin);
  SeriesScale scale;
  for (std::int64_t m = 0; m < M; ++m) {
    double mean = 0, variance = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) mean += x[row * M + m];
    mean /= count;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      variance += (x[row * M + m] - mean) * (x[row * M + m] - mean);
    variance /= count;
    scale.means.push_back(mean);
    scale.deviations.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
  return scale;
}

Array SeriesScale::apply(const Array& values) const {
  return array_of(
      xt::cast<float>((xtensor_view<float>(values) - xt::adapt(means)) / xt::adapt(deviations)));
}

Array SeriesScale::undo(const Array& values) const {
  return array_of(
      xt::cast<float>(xtensor_view<float>(values) * xt::adapt(deviations) + xt::adapt(means)));
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
          "SeriesDataset: values {}, targets in rows [{}, {}), context {} and horizon {}; expected "
          "values "
          "(rows, M) with these rows and at least one window",
          to_string(values_.shape()), rows.begin, rows.end, window.context, window.horizon);
  std::vector<std::int64_t>& targets = window_.targets;
  if (targets.empty()) targets = indices(0, values_.dim(1));
  require(std::ranges::all_of(targets, [&](auto m) { return m >= 0 && m < values_.dim(1); }),
          "SeriesDataset: targets {}; expected indices below {}", fmt::join(targets, ", "),
          values_.dim(1));
}

void SeriesDataset::add_to(Checksum& sum) const { sum.add(values_); }

bool SeriesDataset::add_examples_to(Checksum& sum) const {
  const std::int64_t M = values_.dim(1);
  sum.add(values_.part((first_ - window_.context) * M, end_row() * M));
  return true;
}

Batch SeriesDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t T = window_.context, horizon = window_.horizon, M = values_.dim(1),
                     K = std::ssize(window_.targets);
  Batch batch{.inputs = Array({B, T, M}),
              .targets = Array({B, horizon, K}),
              .count = static_cast<double>(B * horizon * K)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<float>().begin();
  for (const std::int64_t example : examples) {
    require_example("SeriesDataset", example);
    const auto now = values_.values<float>().begin() + target_row(example) * M;
    input = std::copy(now - T * M, now, input);
    for (std::int64_t h = 0; h < horizon; ++h)
      for (const std::int64_t m : window_.targets) *target++ = now[h * M + m];
  }
  return batch;
}

}  // namespace tapestry
