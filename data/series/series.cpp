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

constexpr std::int64_t month_us = 30 * day_us;

struct Wave {
  double period, amplitude, phase;
};

std::vector<Wave> draw_waves(Random& random) {
  std::vector<Wave> waves(3);
  for (Wave& wave : waves)
    wave = {random.uniform(6, 60), random.uniform(0.5, 1), random.uniform(0, 2 * std::numbers::pi)};
  return waves;
}

// Returns the last measured value of each series up to each row, else 0, (rows, M); empty, if none
// is missing.
Array held_values(const Array& values) {
  const auto x = values.values<float>();
  if (std::ranges::none_of(x, [](float value) { return std::isnan(value); })) return {};
  const std::int64_t M = values.dim(1);
  Array held = Array::zeros(values.shape());
  const auto y = held.mutable_values<float>();
  for (std::int64_t i = 0; i < values.size(); ++i)
    y[i] = !std::isnan(x[i]) ? x[i] : i >= M ? y[i - M] : 0;
  return held;
}

// Writes the inputs (context, M) before a row, with what stands for missing ones.
void write_inputs(const Array& values, const Array& held, std::int64_t row,
                  const SeriesDataset::Window& window, float* to) {
  const std::int64_t M = values.dim(1), T = window.context;
  const float* x = values.values<float>().data() + (row - T) * M;
  std::copy(x, x + T * M, to);
  if (held.empty()) return;
  std::copy_n(held.values<float>().data() + (row - T) * M, T * M, to);
  for (std::int64_t m = 0; m < M && window.interpolates; ++m) {
    std::int64_t last = -1;  // the last measured row of the window
    for (std::int64_t t = 0; t < T; ++t) {
      if (std::isnan(x[t * M + m])) continue;
      for (std::int64_t gap = last + 1; last >= 0 && gap < t; ++gap)
        to[gap * M + m] = std::lerp(x[last * M + m], x[t * M + m],
                                    static_cast<float>(gap - last) / static_cast<float>(t - last));
      last = t;
    }
  }
}

double height(const std::vector<Wave>& waves, double row) {
  double sum = 0;
  for (const Wave& wave : waves)
    sum += wave.amplitude * std::sin(2 * std::numbers::pi * row / wave.period + wave.phase);
  return sum;
}

}  // namespace

std::int64_t SeriesTable::unmeasured() const {
  return std::ranges::count_if(values.values<double>(), [](double x) { return std::isnan(x); });
}

void fill_missing(SeriesTable& table, MissingValues missing) {
  const std::int64_t M = table.values.dim(1), rows = table.rows();
  const auto x = table.values.mutable_values<double>();
  const auto time = [&](std::int64_t row) {
    return static_cast<double>(table.times[row].utc_us() / second_us);
  };
  for (std::int64_t m = 0; m < M; ++m) {
    const auto is_measured = [&](std::int64_t row) { return !std::isnan(x[row * M + m]); };
    std::int64_t last = -1, row = 0;
    while (row < rows && is_measured(row)) ++row;
    if (row == rows) continue;
    expect_option(missing != MissingValues::refuse, "missing", "{}: {} has no value at {}",
                  table.path, shown(table.names[m]), row_text(table, row));
    for (row = 0; row < rows; ++row) {
      if (!is_measured(row)) continue;
      const double value = x[row * M + m], before = last < 0 ? value : x[last * M + m];
      for (std::int64_t gap = last + 1; gap < row; ++gap)
        x[gap * M + m] =
            last < 0 || missing == MissingValues::previous
                ? before
                : static_cast<double>(static_cast<float>(std::lerp(
                      before, value, (time(gap) - time(last)) / (time(row) - time(last)))));
      last = row;
    }
    expect_option(last >= 0, "columns",
                  "{}: series {}: all cells are empty; enter numbers, or leave the series out",
                  table.path, shown(table.names[m]));
    for (std::int64_t gap = last + 1; gap < rows; ++gap) x[gap * M + m] = x[last * M + m];
  }
}

std::string row_text(const SeriesTable& table, std::int64_t row) {
  const std::int64_t beyond = row - table.rows();
  if (!table.has_times || (beyond >= 0 && !table.step)) return fmt::format("row {}", row + 1);
  if (beyond < 0) return time_text(table.times[row]);
  return time_text({table.step.after(table.next_us, beyond), table.times.back().offset_s});
}

SeriesTable make_waves(const WaveOptions& options) {
  const std::int64_t M = options.series, rows = options.rows;
  require(M >= 1 && rows >= 2,
          "make_waves: {} series of {} rows; expected at least 1 series of 2 rows", M, rows);
  SeriesTable table{.path = "waves",
                    .values = Array({rows, M}, DType::float64),
                    .step = {TimeStep::Unit::microseconds, hour_us}};
  const auto values = table.values.mutable_values<double>();
  for (std::int64_t m = 0; m < M; ++m) {
    Random random(options.seed, Stream::data, static_cast<std::uint64_t>(m));
    const std::vector<Wave> waves = draw_waves(random);
    table.names.push_back(fmt::format("wave {}", m + 1));
    for (std::int64_t row = 0; row < rows; ++row)
      values[row * M + m] = static_cast<float>(height(waves, static_cast<double>(row)) +
                                               options.noise * random.normal());
  }
  constexpr std::int64_t first_us = 946'684'800 * second_us;  // 2000-01-01 00:00:00
  for (std::int64_t row = 0; row < rows; ++row) table.times.push_back({first_us + row * hour_us});
  table.next_us = first_us + rows * hour_us;
  return table;
}

SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation) {
  const auto rows = static_cast<double>(table.rows());
  const auto first = std::llround(rows * train), second = std::llround(rows * (train + validation));
  return {{0, first}, {first, second}, {second, table.rows()}};
}

SeriesRanges split_by_months(const SeriesTable& table, const Months& months) {
  const auto row_after = [&](std::int64_t count) {
    const Moment end{table.times.front().us + count * month_us};
    expect_option(end.us <= table.next_us, "train_months",
                  "{}: {} + {} + {} months of 30 days end at {}, but the file ends at {}; expected "
                  "fewer months",
                  table.path, months.train, months.validation, months.test, time_text(end),
                  time_text(table.times.back()));
    return std::ranges::lower_bound(table.times, end.us, {}, &Moment::us) - table.times.begin();
  };
  const std::int64_t third = row_after(months.train + months.validation + months.test),
                     second = row_after(months.train + months.validation),
                     first = row_after(months.train);
  return {{0, first}, {first, second}, {second, third}};
}

std::int64_t count_measured(const SeriesTable& table, std::int64_t series, const RowRange& rows) {
  const double* x = table.values.values<double>().data() + series;
  std::int64_t count = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    count += !std::isnan(x[row * table.values.dim(1)]);
  return count;
}

SeriesScale SeriesScale::of(const SeriesTable& table, const RowRange& rows) {
  require(rows.begin < rows.end, "SeriesScale: rows [{}, {}); expected at least one row",
          rows.begin, rows.end);
  const std::int64_t M = table.values.dim(1);
  const double* x = table.values.values<double>().data();
  SeriesScale scale;
  for (std::int64_t m = 0; m < M; ++m) {
    const auto add_up = [&](const auto& term) {
      double sum = 0;
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        if (!std::isnan(x[row * M + m])) sum += term(x[row * M + m]);
      return sum;
    };
    const auto count = static_cast<double>(count_measured(table, m, rows));
    const double mean = count < 2 ? 0 : add_up([](double value) { return value; }) / count;
    const double variance =
        count < 2 ? 1
                  : add_up([&](double value) { return (value - mean) * (value - mean); }) / count;
    scale.means.push_back(mean);
    scale.deviations.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
  return scale;
}

Array SeriesScale::apply(const Array& values) const {
  return array_of(
      xt::cast<float>((xtensor_view<double>(values) - xt::adapt(means)) / xt::adapt(deviations)));
}

Array SeriesScale::undo(const Array& values) const {
  return array_of(xtensor_view<double>(values.to(DType::float64)) * xt::adapt(deviations) +
                  xt::adapt(means));
}

std::int64_t place_in_cycle(std::int64_t step, std::int64_t cycle) {
  return (step % cycle + cycle) % cycle;
}

std::int64_t place_in_cycle(const SeriesTable& table, std::int64_t row, std::int64_t cycle) {
  return place_in_cycle(table.has_step() ? table.step.between(0, table.times[row].us) : row, cycle);
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
  held_ = held_values(values_);
  std::vector<std::int64_t>& targets = window_.targets;
  if (targets.empty()) targets = indices(0, values_.dim(1));
  require(std::ranges::all_of(targets, [&](auto m) { return m >= 0 && m < values_.dim(1); }),
          "SeriesDataset: targets {}; expected indices below {}", fmt::join(targets, ", "),
          values_.dim(1));
  if (!held_.empty()) leave_out_windows();
}

// Lists the windows of which half of the inputs and one target were measured.
void SeriesDataset::leave_out_windows() {
  const std::int64_t M = values_.dim(1), rows = values_.dim(0);
  const float* x = values_.values<float>().data();
  // Numbers of measured values in the rows before each row: of all series, and of the targets.
  std::vector<std::int64_t> inputs(rows + 1), targets(rows + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto is_measured = [&](std::int64_t m) { return !std::isnan(x[row * M + m]); };
    inputs[row + 1] = inputs[row];
    for (std::int64_t m = 0; m < M; ++m) inputs[row + 1] += is_measured(m);
    targets[row + 1] = targets[row] + std::ranges::count_if(window_.targets, is_measured);
  }
  const std::int64_t T = window_.context, H = window_.horizon;
  for (std::int64_t row = first_; row <= last_; ++row)
    if ((inputs[row] - inputs[row - T]) * 2 >= T * M && targets[row + H] > targets[row])
      rows_.push_back(static_cast<std::int32_t>(row));
  left_out_ = last_ - first_ + 1 - std::ssize(rows_);
  expect_input(!rows_.empty(),
               "{}: too few values are measured in rows {} to {}; expected a window with half of "
               "its inputs and one target; begin the splits at other rows, or give more data",
               table_ ? table_->path : "the series", first_ + 1, last_ + H);
}

Array SeriesDataset::inputs_before(const Array& values, std::int64_t row, const Window& window) {
  Array inputs({window.context, values.dim(1)});
  write_inputs(values, held_values(values), row, window, inputs.mutable_values<float>().data());
  return inputs;
}

std::optional<Array> SeriesDataset::measured_inputs(std::span<const std::int64_t> examples) const {
  if (held_.empty()) return std::nullopt;
  const std::int64_t T = window_.context, M = values_.dim(1);
  Array measured({std::ssize(examples), T, M});
  auto to = measured.mutable_values<float>().begin();
  for (const std::int64_t example : examples) {
    const auto begin = values_.values<float>().begin() + (target_row(example) - T) * M;
    to = std::transform(begin, begin + T * M, to,
                        [](float value) { return std::isnan(value) ? 0.0F : 1.0F; });
  }
  return measured;
}

void SeriesDataset::add_to(Checksum& sum) const { sum.add(values_); }

bool SeriesDataset::add_examples_to(Checksum& sum) const {
  const std::int64_t M = values_.dim(1);
  sum.add(values_.part((first_ - window_.context) * M, end_row() * M));
  return true;
}

// Returns the place in the cycle of a row.
std::int32_t SeriesDataset::first_place(std::int64_t row) const {
  return static_cast<std::int32_t>(table_ ? place_in_cycle(*table_, row, window_.cycle)
                                          : place_in_cycle(row, window_.cycle));
}

Batch SeriesDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t T = window_.context, horizon = window_.horizon, M = values_.dim(1),
                     K = std::ssize(window_.targets);
  Batch batch{.inputs = Array({B, T, M}),
              .targets = Array({B, horizon, K}),
              .count = static_cast<double>(B * horizon * K)};
  if (window_.cycle > 0) batch.auxiliary = CyclePlaces{Array({B}, DType::int32)};
  if (is_dry_run()) return batch;
  if (window_.cycle > 0) {
    auto place =
        std::get<CyclePlaces>(batch.auxiliary).first.mutable_values<std::int32_t>().begin();
    for (const std::int64_t example : examples) *place++ = first_place(target_row(example) - T);
  }
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<float>().begin();
  for (const std::int64_t example : examples) {
    require_example("SeriesDataset", example);
    const auto now = values_.values<float>().begin() + target_row(example) * M;
    write_inputs(values_, held_, target_row(example), window_, &*input);
    input += T * M;
    for (std::int64_t h = 0; h < horizon; ++h)
      for (const std::int64_t m : window_.targets) {
        batch.count -= std::isnan(now[h * M + m]);
        *target++ = now[h * M + m];
      }
  }
  return batch;
}

}  // namespace tapestry
