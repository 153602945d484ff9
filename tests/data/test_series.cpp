#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "data/input_file.hpp"
#include "data/outlier.hpp"
#include "data/series/series.hpp"
#include "layers/models/forecaster.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/hours.hpp"
#include "tests/support/process.hpp"

// Tests time series: files, splits and windows, forecasters, and figures.
namespace tapestry {
namespace {

std::vector<float> floats(const Array& array) {
  return {array.values<float>().begin(), array.values<float>().end()};
}

TEST_SUITE_BEGIN("series");

TEST_CASE("bug: a number too small for float32 was refused") {
  CHECK(parse_float("1e-50") == 0.0f);
  CHECK(parse_float("-1e-400") == 0.0f);
  CHECK(parse_float(fmt::format("0.{}1", std::string(500, '0'))) == 0.0f);
  CHECK(parse_float("1e-40") == 1e-40f);  // below the normal numbers
  CHECK(parse_float("3.4028235e38") == std::numeric_limits<float>::max());
  for (const char* none : {"1e39", "-1e400", "nan", "inf", "-inf", "infinity", "0x1p3", "", " 1",
                           "1 ", "+1", "1,5", "1e", "e1", "1f", "."})
    CHECK_MESSAGE(!parse_float(none), none);
}

TEST_CASE(
    "series: splits by months are those of the ETT papers, splits by fractions those of rows") {
  SeriesTable table{"x", {"a"}, {}, Array::zeros({17420, 1})};
  for (std::int64_t row = 0; row < 17420; ++row) table.times.push_back({row * hour_us});
  table.next_us = 17420 * hour_us;
  const SeriesRanges months = split_by_months(table, {});
  CHECK(months.train.begin == 0);
  CHECK(months.train.end == 8640);
  CHECK(months.validation.begin == 8640);
  CHECK(months.validation.end == 11520);
  CHECK(months.test.begin == 11520);
  CHECK(months.test.end == 14400);
  CHECK_ERROR(split_by_months(table, {12, 4, 10}),
              "12 + 4 + 10 months of 30 days end at 1972-02-20", "1971-12-27");

  // Rows of weekdays from a Friday on: months count calendar days, and a step is one day.
  SeriesTable weekdays{"x", {"a"}, {}, Array::zeros({261, 1})};
  for (std::int64_t day = 1; weekdays.times.size() < 261; ++day)
    if (day % 7 != 2 && day % 7 != 3)
      weekdays.times.push_back({day * day_us});  // from 1970-01-02 on
  weekdays.next_us = weekdays.times.back().us + day_us;
  const SeriesRanges quarters = split_by_months(weekdays, {7, 2, 2});
  CHECK(quarters.train.end == 150);
  CHECK(quarters.validation.end == 192);
  CHECK(quarters.test.end == 236);

  const SeriesRanges shares = split_by_fractions(table, 0.7, 0.1);
  CHECK(shares.train.end == 12194);
  CHECK(shares.validation.end == 13936);
  CHECK(shares.test.end == 17420);

  const auto windows = [&](const RowRange& rows) {
    return SeriesDataset(table.values, rows, {96, 96}).size();
  };
  CHECK(windows(months.train) == 8640 - 96 - 96 + 1);
  CHECK(windows(months.validation) == 2880 - 96 + 1);  // their inputs begin before the split
  CHECK(windows(months.test) == 2785);
}

TEST_CASE("series: a window has the past as input, and the following values as target") {
  std::vector<float> counted(20);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<float>(i);
  const Array values = Array::of(counted, {10, 2});
  const SeriesDataset data(values, {6, 10}, {3, 2});
  CHECK(data.size() == 3);
  const Batch batch = data.batch(std::vector<std::int64_t>{0, 2});
  CHECK(batch.inputs.shape() == Shape{2, 3, 2});
  CHECK(batch.targets.shape() == Shape{2, 2, 2});
  CHECK(batch.count == 8);
  CHECK(floats(batch.inputs) == std::vector<float>{6, 7, 8, 9, 10, 11, 10, 11, 12, 13, 14, 15});
  CHECK(floats(batch.targets) == std::vector<float>{12, 13, 14, 15, 16, 17, 18, 19});
  const SeriesDataset second(values, {6, 10}, {3, 2, {1}});
  const Batch of_target = second.batch(std::vector<std::int64_t>{0, 2});
  CHECK(floats(of_target.inputs) == floats(batch.inputs));
  CHECK(of_target.targets.shape() == Shape{2, 2, 1});
  CHECK(floats(of_target.targets) == std::vector<float>{13, 15, 17, 19});
  CHECK(of_target.count == 4);
  CHECK_THROWS_AS(SeriesDataset(values, {6, 10}, {3, 2, {2}}), std::invalid_argument);
  CHECK_THROWS_AS(data.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(SeriesDataset(values, {8, 10}, {3, 3}), std::invalid_argument);
  CHECK_THROWS_AS(SeriesDataset(values, {8, 11}, {3, 2}), std::invalid_argument);
}

// The rows are hours from 1970-01-03 05:00 on.
TEST_CASE(
    "series: the place in a cycle follows from the time, or else from the number of the row") {
  SeriesTable table{.names = {"a"}, .times = {}, .values = Array::zeros({60, 1}, DType::float64)};
  for (std::int64_t row = 0; row < 60; ++row)
    table.times.push_back({(48 + 5 + row) * std::int64_t{3'600'000'000}});
  table.step = {.unit = TimeStep::Unit::microseconds, .count = 3'600'000'000};
  CHECK(place_in_cycle(table, 0, 24) == 5);
  CHECK(place_in_cycle(table, 19, 24) == 0);
  CHECK(place_in_cycle(table, 59, 24) == 16);
  CHECK(place_in_cycle(table, 0, 7) == 53 % 7);
  for (Moment& time : table.times) time.us -= std::int64_t{1000} * 3'600'000'000;  // before 1970
  CHECK(place_in_cycle(table, 0, 24) == (53 - 1000 + 24 * 100) % 24);
  const Array values = table.values.to(DType::float32);
  const SeriesDataset timed(values, {6, 60}, {.context = 3, .horizon = 2, .cycle = 24},
                            std::make_shared<const SeriesTable>(table));
  table.step = {};
  CHECK(place_in_cycle(table, 30, 24) == 6);
  const SeriesDataset plain(values, {6, 60}, {.context = 3, .horizon = 2, .cycle = 24});
  const std::vector<std::int64_t> examples{0, 1, 30};
  const auto places = [&](const SeriesDataset& data) {
    const Array first = data.batch(examples).part<CyclePlaces>().first;
    return std::vector<std::int32_t>(first.values<std::int32_t>().begin(),
                                     first.values<std::int32_t>().end());
  };
  CHECK(places(plain) == std::vector<std::int32_t>{3, 4, 9});
  CHECK(places(timed) == std::vector<std::int32_t>{16, 17, 22});
}

TEST_CASE("series: the scale depends on the training rows alone, and is invertible") {
  const SeriesTable table{
      "x", {"a", "b"}, {{0}, {1}, {2}}, Array::of(std::vector<double>{1, 7, 3, 7, 100, 8}, {3, 2})};
  const SeriesScale scale = SeriesScale::of(table, {0, 2});
  CHECK(scale.means == std::vector<double>{2, 7});
  CHECK(scale.deviations == std::vector<double>{1, 1});  // a constant series is not scaled
  CHECK(floats(scale.apply(table.values)) == std::vector<float>{-1, 0, 1, 0, 98, 1});
  CHECK(doubles(scale.undo(scale.apply(table.values))) == doubles(table.values));
}

TEST_CASE("series: waves depend on the seed, and are sines with noise") {
  const SeriesTable one = make_waves({.rows = 500, .seed = 3}),
                    again = make_waves({.rows = 500, .seed = 3}),
                    other = make_waves({.rows = 500, .seed = 4});
  CHECK(doubles(one.values) == doubles(again.values));
  CHECK(doubles(one.values) != doubles(other.values));
  CHECK(one.names == Strings{"wave 1", "wave 2", "wave 3"});
  CHECK(time_text(one.times[25]) == "2000-01-02 01:00:00");
  const std::vector<double> noisy = doubles(make_waves({.rows = 4000, .noise = 0.5}).values),
                            pure = doubles(make_waves({.rows = 4000, .noise = 0}).values);
  double squares = 0;
  for (std::size_t i = 0; i < pure.size(); ++i) {
    CHECK(std::abs(pure[i]) <= 3);
    squares += std::pow(noisy[i] - pure[i], 2);
  }
  CHECK(std::sqrt(squares / 12000) == doctest::Approx(0.5).epsilon(0.03));
}

TEST_CASE("series: a forecast follows the level of its window, and no series depends on another") {
  Random init(1, Stream::init);
  for (const std::int64_t layers : {0, 2})
    for (const WindowNorm norm : {WindowNorm::instance, WindowNorm::last}) {
      Forecaster model({.context = 12,
                        .horizon = 5,
                        .patch = 4,
                        .stride = 2,
                        .layers = layers,
                        .block = {.width = 8, .attention = {.heads = 2}},
                        .norm = norm},
                       init);
      model.convert(DType::float64);
      Array x({2, 12, 3}, DType::float64);
      Random(2, Stream::data).fill_normal(x, 0, 1);
      const Array y = model.forward(x).value();
      CHECK(y.shape() == Shape{2, 5, 3});
      Array moved = x.clone();
      for (std::size_t i = 1; i < moved.values<double>().size(); i += 3)
        moved.mutable_values<double>()[i] += 7;  // the series in the middle
      const Array z = model.forward(moved).value();
      for (std::size_t i = 0; i < y.values<double>().size(); ++i)
        CHECK(z.values<double>()[i] ==
              doctest::Approx(y.values<double>()[i] + (i % 3 == 1 ? 7 : 0)).epsilon(1e-9));
    }
}

TEST_CASE("series: patches and the linear forecaster have values computed by hand") {
  const Array windows = Array::of(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {1, 8});
  CHECK(floats(cut_windows(windows, 4, 2).value()) ==
        std::vector<float>{0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7});
  CHECK_THROWS_AS(cut_windows(windows, 4, 3), std::invalid_argument);

  Random init(1, Stream::init);
  Forecaster linear({.context = 2, .horizon = 2, .layers = 0, .norm = WindowNorm::last}, init);
  linear.head.weight.value().copy_from(Array::of(std::vector<float>{-1, 0, -2, 0}, {2, 2}));
  linear.head.bias.value().copy_from(Array::zeros({2}));
  const Array y = linear.forward(Array::of(std::vector<float>{3, 5}, {1, 2, 1})).value();
  CHECK(floats(y) == std::vector<float>{7, 9});  // 5 + 2, 5 + 4: the line through both
}

// The head is 0, so that the forecast is the cycle, at the level of the window.
TEST_CASE("series: a cycle is added to the forecast at the time of each step") {
  Random r(1, Stream::init);
  Forecaster model(
      {.context = 3, .horizon = 4, .layers = 0, .series = 2, .targets = {1}, .cycle = 5}, r);
  model.convert(DType::float64);
  for (Parameter* parameter : model.parameters())
    for (double& value : parameter->value().mutable_values<double>()) value = 0;
  for (std::int64_t i = 0; i < 10; ++i)
    model.cycle->value().mutable_values<double>()[i] = static_cast<double>(i);
  const Array x = Array::of(std::vector<double>{9, 1, 9, 3, 9, 5}, {1, 3, 2});
  const Array y = model.forward(x, nullptr, Array::of<std::int32_t>({3}, {1})).value();
  // The window has the places 3, 4, 0; the forecast has 1, 2, 3, 4, where series 1 has 3, 5, 7, 9.
  const double mean = 3, deviation = std::sqrt(8.0 / 3 + 1e-5);
  for (std::int64_t h = 0; h < 4; ++h)
    CHECK(y.values<double>()[h] ==
          doctest::Approx(mean + deviation * static_cast<double>(3 + 2 * h)).epsilon(1e-9));
}

TEST_CASE("series: a linear forecaster of targets reads all series") {
  Random init(1, Stream::init);
  Forecaster linear({.context = 2,
                     .horizon = 2,
                     .layers = 0,
                     .norm = WindowNorm::last,
                     .series = 3,
                     .targets = {2, 0}},
                    init);
  CHECK(linear.head.weight.value().shape() == Shape{4, 6});
  // A row of weights per target and step; a column per series and input step.
  linear.head.weight.value().copy_from(Array::of(std::vector<float>{1, 0, 0, 0, 0, 0,  //
                                                                    0, 0, 1, 0, 0, 0,  //
                                                                    0, 0, 0, 0, 1, 0,  //
                                                                    0, 5, 0, 5, 0, 5},
                                                 {4, 6}));
  linear.head.bias.value().copy_from(Array::of(std::vector<float>{0, 0, 0, 100}, {4}));
  // The series 1, 3 and 20, 10 and 300, 700, minus their last values: -2, 10 and -400.
  const Array x = Array::of(std::vector<float>{1, 20, 300, 3, 10, 700}, {1, 2, 3});
  const Array y = linear.forward(x).value();
  CHECK(y.shape() == Shape{1, 2, 2});
  CHECK(floats(y) == std::vector<float>{700 - 2, 3 - 400, 700 + 10, 3 + 100});
}

TEST_CASE("series: a forecast of targets follows their own level alone") {
  Random init(1, Stream::init);
  for (const std::int64_t layers : {0, 1})
    for (const WindowNorm norm : {WindowNorm::instance, WindowNorm::last}) {
      Forecaster model({.context = 8,
                        .horizon = 3,
                        .patch = 4,
                        .stride = 2,
                        .layers = layers,
                        .block = {.width = 8, .attention = {.heads = 2}},
                        .norm = norm,
                        .series = 3,
                        .targets = {2, 1}},
                       init);
      model.convert(DType::float64);
      Array x({2, 8, 3}, DType::float64);
      Random(2, Stream::data).fill_normal(x, 0, 1);
      const auto forecast = [&](std::size_t series, double shift, double factor) {
        Array moved = x.clone();
        for (std::size_t i = series; i < moved.values<double>().size(); i += 3)
          moved.mutable_values<double>()[i] = moved.values<double>()[i] * factor + shift;
        return model.forward(moved).value();
      };
      const Array y = forecast(0, 0, 1), higher = forecast(1, 7, 1), other = forecast(0, 7, 1),
                  reversed = forecast(0, 0, -1);
      CHECK(y.shape() == Shape{2, 3, 2});
      for (std::size_t i = 0; i < y.values<double>().size(); ++i) {
        const double value = y.values<double>()[i];
        CHECK(higher.values<double>()[i] == doctest::Approx(value + (i % 2 == 1 ? 7 : 0)));
        CHECK(other.values<double>()[i] == doctest::Approx(value));
        CHECK(std::abs(reversed.values<double>()[i] - value) > 1e-6);  // it reads the other series
      }
    }
}

TEST_SUITE_END();

TEST_CASE("outlier: a value with similar ones, or that occurs once, is no outlier") {
  std::vector<float> column;
  for (int i = 0; i < 500; ++i) column.push_back(static_cast<float>(i % 100));
  CHECK(!outlier_of(column).has_value());
  const auto with = [&](int count, float value) {
    std::vector<float> more = column;
    more.insert(more.end(), count, value);
    return outlier_of(more);
  };
  CHECK(!with(2, 999).has_value());  // a peak
  CHECK(!with(5, 300).has_value());
  REQUIRE(with(3, 999).has_value());
  CHECK(with(3, 999)->count == 3);
  CHECK(with(3, 999)->high == 99);
  CHECK(with(1, -1e6F).has_value());
  std::vector<float> classes(100), shares(100);
  for (std::size_t i = 0; i < 100; ++i) classes[i] = static_cast<float>(i % 3);
  classes.insert(classes.end(), 5, 50);
  CHECK(!outlier_of(classes).has_value());
  for (std::size_t i = 0; i < 100; ++i) shares[i] = static_cast<float>(i) * 1e-4F;
  shares.insert(shares.end(), 5, 1);  // pixels of the margin
  CHECK(!outlier_of(shares).has_value());
}

}  // namespace
}  // namespace tapestry
