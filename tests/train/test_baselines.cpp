#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/process.hpp"
#include "train/tasks/series/baselines.hpp"

namespace tapestry {
namespace {

// Returns all windows of one series.
SeriesDataset windows_of(const std::vector<float>& values, const SeriesDataset::Window& window) {
  const std::int64_t rows = std::ssize(values);
  return SeriesDataset(Array::of(values, {rows, 1}), {0, rows}, window);
}

TEST_SUITE_BEGIN("series");

TEST_CASE("baselines: the errors of a ramp by hand") {
  // Windows (-3, -1 | 1, 3) and (-1, 1 | 3, 5).
  const SeriesDataset ramp = windows_of({-3, -1, 1, 3, 5}, {2, 2});
  const std::vector<BaselineErrors> errors = baseline_errors(&ramp, ramp, 2);
  REQUIRE(errors.size() == 4);
  CHECK(errors[0].name == "training mean");
  CHECK(errors[0].mse == (1 + 9 + 9 + 25) / 4.0);
  CHECK(errors[0].mae == (1 + 3 + 3 + 5) / 4.0);
  CHECK(errors[1].mse == (4 + 16) / 2.0);
  CHECK(errors[1].mae == (2 + 4) / 2.0);
  CHECK(errors[2].name == "last 2 rows (seasonal naive)");
  CHECK(errors[2].mse == 16);
  CHECK(errors[2].mae == 4);
  CHECK(errors[3].mse < 1e-12);  // a ramp is linear
  CHECK(baseline_errors(&ramp, ramp, 0).size() == 3);
}

TEST_CASE("baselines: errors are of the targets alone") {
  const Array values = Array::of<float>({9, -3, 0, -1, 7, 1, 1, 3, 4, 5}, {5, 2});
  const SeriesDataset ramp(values, {0, 5}, {2, 2, {1}});
  const SeriesDataset target = windows_of({-3, -1, 1, 3, 5}, {2, 2});
  const std::vector<BaselineErrors> errors = baseline_errors(&ramp, ramp, 2),
                                    alone = baseline_errors(&target, target, 2);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    CHECK(errors[i].mse == alone[i].mse);
    CHECK(errors[i].mae == alone[i].mae);
  }
}

TEST_CASE("baselines: a linear model forecasts a sum of waves, and no noise") {
  std::vector<float> waves, noise;
  Random random(3, Stream::data);
  for (int t = 0; t < 4000; ++t) {
    waves.push_back(static_cast<float>(std::sin(0.7 * t) + std::cos(0.2 * t)));
    noise.push_back(static_cast<float>(random.normal()));
  }
  // A sum of two waves is a linear recurrence of four values.
  const SeriesDataset sum = windows_of(waves, {8, 5}), other = windows_of(noise, {8, 5});
  CHECK(baseline_errors(&sum, sum, 0).back().mse < 1e-10);
  const std::vector<BaselineErrors> of_noise = baseline_errors(&other, other, 0);
  CHECK(of_noise[0].mse == doctest::Approx(1).epsilon(0.1));  // the variance
  CHECK(of_noise[1].mse == doctest::Approx(2).epsilon(0.1));  // of a difference
  CHECK(of_noise[2].mse > 0.9);
}

TEST_CASE("baselines: a season is a day of hours, a week of days or a year of months") {
  CHECK(season_of(3600, 96) == 24);
  CHECK(season_of(900, 96) == 96);
  CHECK(season_of(day_s, 7) == 7);
  CHECK(season_of(30 * day_s, 12) == 12);
  CHECK(season_of(3600, 23) == 0);  // longer than the context
  CHECK(season_of(7 * day_s, 96) == 0);
  CHECK(season_of(0, 96) == 0);
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: eval and report say that noise cannot be forecast") {
  Random random(4, Stream::data);
  std::string text = "a\n";
  for (int row = 0; row < 600; ++row) text += fmt::format("{:.4f}\n", random.normal());
  write("noise.csv", text);
  must(
      run("train etth1 --quiet --out run data.path=noise.csv data.split=fractions model.context=16 "
          "model.patch=8 model.horizon=4 train.steps=20 train.eval_every=0"));
  const std::string said = must(run("eval run --test")).out;
  check_says(said, {"baseline training mean: loss ", "baseline linear model: loss ",
                    "No clear improvement on the baselines"});
  check_says(must(run("eval run --json")).out, {"\"baselines\":{\"training mean\":{\"loss\":"});
  must(run("report run"));
  check_says(read("run/report.html"), {"Comparison with baselines", "No clear improvement"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
