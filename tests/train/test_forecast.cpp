#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "autograd/random.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/hours.hpp"
#include "tests/support/process.hpp"
#include "train/model.hpp"
#include "train/tasks/series/baselines.hpp"

// Tests forecasts by the command line.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("forecast");

// A file and a run on it.
struct Station : public CommandFolder {
  Station() {
    write("station.csv", csv(200));
    const Finished trained =
        must(run("train etth1 --out run data.path=station.csv data.split=fractions "
                 "model.context=16 model.horizon=8 model.patch=4 model.stride=4 model.layers=1 "
                 "train.steps=6 train.eval_every=2 train.batch_size=8"));
    said = trained.out;
  }
  std::string said;
};

TEST_CASE_FIXTURE(Station, "forecast: the best model is tested as by eval --test") {
  const Finished test = run("eval run --test --json train.eval_batch_size=7");
  const Finished validation = run("eval run --json");
  REQUIRE(test.status == 0);
  REQUIRE(validation.status == 0);
  const double mse = Json::parse(test.out)["mse"];
  CHECK(mse != Json::parse(validation.out)["mse"]);
  CHECK(Json::parse(test.out)["mae"].get<double>() > 0);
  check_says(said, {fmt::format("test_mse {:.4g}", mse)});
}

TEST_CASE_FIXTURE(Station, "bug: forecast: the names of columns and fields needed the data") {
  const std::string header = lines_of(must(run("predict run station.csv")).out).front();
  const Model model(path("run"));
  CHECK(fmt::format("{},{}", fmt::join(model.example_fields(), ","),
                    fmt::join(model.prediction_columns(), ",")) == header);
  fs::remove(path("station.csv"));
  CHECK(model.prediction_columns() == Strings{"load", "oil"});
  CHECK(Model(path("run")).example_fields() == Strings{"time"});
}

TEST_CASE_FIXTURE(Station, "forecast: sample writes history, truth, forecast as CSV, PNG and SVG") {
  Finished sample = run("sample run --out forecast");
  INFO(sample.err);
  CHECK(sample.out == "forecast.csv\nforecast.png\nforecast.svg\n");
  const auto lines = lines_of(read("forecast.csv"));
  REQUIRE(lines.size() == 1 + 16 + 8);
  CHECK(lines[0] == "time,load,load forecast,oil,oil forecast");
  CHECK(lines[1].starts_with("2020-03-07 06:00:00,"));
  CHECK(lines[16].ends_with(","));  // no forecast of history
  CHECK(std::ranges::count(lines.back(), ',') == 4);
  check_says(read("forecast.svg"), {"load", "oil", "history", "truth"});
  CHECK(read("forecast.png").starts_with("\x89PNG\r\n\x1a\n"));

  sample = run("sample run --prompt 2020-03-01 --count 1");
  CHECK(sample.out == "run/samples.csv\nrun/samples.png\nrun/samples.svg\n");
  CHECK(lines_of(read("run/samples.csv"))[17].starts_with("2020-03-01 00:00:00,"));
  CHECK(read("run/samples.svg").find("oil") == std::string::npos);

  CHECK(run("sample run --prompt 2020-02 --out early.16").out ==
        "early.16.csv\nearly.16.png\nearly.16.svg\n");
  CHECK(lines_of(read("early.16.csv"))[17].starts_with(
      "2020-02-29 14:00:00,"));  // the first with a complete history

  run("sample run --prompt end");
  const auto future = lines_of(read("run/samples.csv"));
  CHECK(future.back().starts_with("2020-03-08 13:00:00,,"));  // not measured yet

  CHECK(run("attention run --index 1 --prompt 2020-03-01").status == 0);
  check_says(read("run/attention.svg"), {"patches.encoder.0.attention, head 0", ">-15<", ">-3<"});

  const std::pair<Words, Strings> wrong[] = {
      {"attention run --index 2", {"--index 2: the series are 0 to 1"}},
      {"sample run --out run/checkpoint.safetensors", {"is the name of a file of a run"}},
      {"train run/config.toml --out run --resume train.steps=5",
       {"train.steps = 5", "has already completed 6"}},
      {"sample run --json",
       {"--json: these samples are a figure; leave out --json; --out NAME.csv writes the numbers"}},
      {"sample run --prompt 2031", {"--prompt 2031", "2020-02-29 14:00:00"}},
      {"sample run --prompt 2020-02-28", {"--prompt 2020-02-28"}},
      {"train etth1 --out new", {"no time series", "ETTh1.csv"}},
      {"train waves --out new data.path=station.csv", {"data.path", "synthetic"}},
      {"train graphs --out new data.path=station.csv", {"data.path", "synthetic"}},
      {"train sort --out new data.path=station.csv", {"data.path", "synthetic"}},
      {"train dates --out new data.path=station.csv", {"data.path", "synthetic"}},
      {"train etth1 --out new data.path=none.csv", {"no such file"}},
      {"train etth1 --out new data.path=station.csv",
       {"station.csv", "12 + 4 + 4 months", "2020-03-08 05:00", "data.train_months = 12",
        "data.split"}},
      {"train waves --out new data.rows=400",
       {"waves: no window of", "validation split", "280 to 320"}},
      {"train waves --out new data.validation_fraction=0.3", {"a test split is left"}},
      {"train waves --out new model.patch=15",
       {"do not cover model.context = 96 exactly; set model.context=95"}}};
  for (const auto& [words, parts] : wrong) {
    check_fails(here(words), parts);
  }
  CHECK(!has("new"));
}

TEST_CASE_FIXTURE(Station, "forecast: a wrong file does not change the run") {
  const std::string before = read("run/checkpoint.safetensors");
  write("station.csv", csv(100) + "2020-03-04 02:00:00,oops,1\n");
  check_fails(here("train run/config.toml --out run --resume train.steps=9 optim.decay_steps=9"),
              {"station.csv: line 102: column load: \"oops\" is not a number"});
  CHECK(read("run/checkpoint.safetensors") == before);
}

TEST_CASE_FIXTURE(Station,
                  "forecast: a trained model scales the series of any file as in training") {
  const auto forecast = [&](const std::string& file) {
    must(run("sample run --out shown data.path=" + file));
    return read("shown.csv");
  };
  const std::string whole = csv(200), head = whole.substr(0, whole.find('\n') + 1);
  const Strings rows = lines_of(whole);
  std::string louder = head, latest = head;
  for (std::size_t row = 1; row < rows.size(); ++row) {
    louder += row < 150 ? rows[row] + "00\n" : rows[row] + "\n";  // 20 becomes 2000
    if (row > 170) latest += rows[row] + "\n";
  }
  write("louder.csv", louder);
  write("latest.csv", latest);
  const std::string before = forecast("station.csv");
  CHECK(forecast("louder.csv") == before);
  CHECK(forecast("latest.csv") == before);  // too short to be split

  write("three.csv", "date,a,b,c\n2020-01-01,1,2,3\n2020-01-02,1,2,3\n");
  check_fails(here("sample run data.path=three.csv"),
              {"three.csv: the file has 3 series, but this model was trained on 2"});
}

// The place in the cycle follows from the times, whatever row a file begins with.
TEST_CASE_FIXTURE(Station, "forecast: a model with a cycle is trained, resumed, shown and tested") {
  const Words words =
      "train etth1 data.path=station.csv data.split=fractions model.kind=linear model.context=16 "
      "model.horizon=8 model.cycle=6 train.eval_every=2 train.batch_size=8 "
      "optim.schedule=exponential";
  must(run(words + Words("--out whole train.steps=6")));
  must(run(words + Words("--out halves train.steps=3 optim.decay_steps=6")));
  must(run(words + Words("--out halves --resume train.steps=6 optim.decay_steps=6")));
  CHECK(Json::parse(must(run("eval whole --test --json")).out)["parameters_xxh3"] ==
        Json::parse(must(run("eval halves --test --json")).out)["parameters_xxh3"]);
  must(run("report whole"));
  const auto forecast = [&](const std::string& file) {
    must(run("sample whole --out shown data.path=" + file));
    return read("shown.csv");
  };
  const std::string whole = csv(200);
  std::string latest = whole.substr(0, whole.find('\n') + 1);
  for (const Strings rows = lines_of(whole); const std::string& row : rows)
    if (row > "2020-03-06 13") latest += row == rows[0] ? "" : row + "\n";
  write("latest.csv", latest);
  CHECK(forecast("latest.csv") == forecast("station.csv"));
  const std::string predicted = must(run("predict whole station.csv")).out;
  CHECK(!predicted.empty());
  check_fails(here(words + Words("--out new optim.final_learning_rate=0")),
              {"optim.final_learning_rate = 0", "an exponential schedule ends above 0"});
}

TEST_CASE_FIXTURE(CommandFolder, "forecast: a program gives the time of a window to a cycle") {
  constexpr std::int64_t rows = 200, context = 16, cycle = 6, first_row = rows - context;
  constexpr std::int64_t first_hour = 1582927200 / 3600 + first_row;
  write("station.csv", csv(rows));
  std::vector<float> window;
  for (std::int64_t row = first_row; row < rows; ++row) {
    window.push_back(static_cast<float>(std::sin(0.3 * static_cast<double>(row))));
    window.push_back(static_cast<float>(20 - row % 5));
  }
  for (const auto& [column, first_step] : {std::pair{"date", first_hour}, {"none", first_row}}) {
    CAPTURE(column);
    must(run(Words("train etth1 data.path=station.csv data.split=fractions model.kind=linear "
                   "model.context=16 model.horizon=8 model.cycle=6 train.steps=6 "
                   "train.batch_size=8 optim.learning_rate=0.1") +
             Words(fmt::format("--out {0} data.time_column={0}", column))));
    const Strings lines = lines_of(must(run(fmt::format("predict {} station.csv", column))).out);
    REQUIRE(lines.size() == 1 + 8);
    const Model model(path(column));
    const Matrix forecast = model.forecast(window, first_step);
    const Matrix shifted = model.forecast(window, first_step + 1);
    for (std::int64_t h = 0; h < 8; ++h) {
      double load = 0, oil = 0;
      REQUIRE(std::sscanf(lines[1 + h].c_str(), "%*[^,],%lf,%lf", &load, &oil) == 2);
      CHECK(forecast.row(h)[0] == doctest::Approx(load).epsilon(1e-5));
      CHECK(forecast.row(h)[1] == doctest::Approx(oil).epsilon(1e-5));
      CHECK(shifted.row(h)[0] != doctest::Approx(load).epsilon(1e-5));
      CHECK(shifted.row(h)[1] != doctest::Approx(oil).epsilon(1e-5));
    }
    for (const std::int64_t turns : {1, -1'000'000})
      CHECK(model.forecast(window, first_step + turns * cycle).values == forecast.values);
    check_says(misuse_of([&] { model.forecast(window); }),
               {"forecast: a model with model.cycle", "give first_step"});
  }
}

TEST_CASE_FIXTURE(Station, "bug: permuted columns were scaled by each other's values") {
  std::string swapped, renamed;
  for (const std::string& line : lines_of(csv(200))) {
    const std::size_t first = line.find(','), second = line.rfind(',');
    swapped += line.substr(0, first) + line.substr(second) + line.substr(first, second - first);
    swapped += '\n';
  }
  renamed = "date,load,gas" + csv(200).substr(csv(200).find('\n'));
  write("swapped.csv", swapped);
  write("renamed.csv", renamed);
  const std::string before = read("run/checkpoint.safetensors");
  for (const Words& command :
       {Words("eval run"), Words("eval run --test"), Words("sample run"), Words("attention run"),
        Words("train run/config.toml --out run --resume train.steps=9 optim.decay_steps=9")})
    for (const auto& [file, said] :
         {std::pair{"swapped.csv",
                    "swapped.csv: series 1 is oil, but this model was trained on load; arrange the "
                    "columns in this order: load, oil"},
          std::pair{"renamed.csv",
                    "renamed.csv: series 2 is gas, but this model was trained on oil; give the "
                    "series that it was trained on: load, oil"}}) {
      check_fails(here(command + (std::string("data.path=") + file)), {said});
    }
  CHECK(read("run/checkpoint.safetensors") == before);
}

TEST_CASE_FIXTURE(Station, "forecast: a file may be moved before a run is resumed") {
  fs::rename(path("station.csv"), path("moved.csv"));
  check_prints(run("train run/config.toml --out run --resume train.steps=9 "
                   "optim.decay_steps=9 data.path=moved.csv"),
               {"test_mse"});
}

// Noise, and an echo that repeats it four rows later; and a run that forecasts the echo.
struct Echo : public CommandFolder {
  Echo() {
    Random random(5, Stream::data);
    std::vector<double> noise;
    std::string swapped = "echo,noise\n", text = "noise,echo\n";
    for (std::size_t row = 0; row < 600; ++row) {
      noise.push_back(random.normal());
      const double echo = row < 4 ? 0 : noise[row - 4];
      text += fmt::format("{:.4f},{:.4f}\n", noise[row], echo);
      swapped += fmt::format("{:.4f},{:.4f}\n", echo, noise[row]);
    }
    write("echo.csv", text);
    write("swapped.csv", swapped);
    must(run(train + "--out run data.targets=[\"echo\"]"));
  }
  const std::string train =
      "train etth1 --quiet data.path=echo.csv data.split=fractions model.kind=linear "
      "model.context=8 model.horizon=4 model.window_norm=last train.steps=300 train.eval_every=150 "
      "optim.learning_rate=0.03 ";
};

TEST_CASE_FIXTURE(Echo, "forecast: a target is forecast from the other series") {
  must(run(train + "--out alone"));
  const auto mse = [&](const std::string& name) {
    return Json::parse(must(run("eval " + name + " --test --json")).out);
  };
  CHECK(mse("run")["mse"].get<double>() < 1e-3);
  CHECK(mse("run")["baselines"]["linear model"]["mse"].get<double>() > 0.8);
  CHECK(mse("alone")["mse"].get<double>() > 0.8);
  check_says(read("run/config.toml"), {"columns = [\"noise\", \"echo\"]", "targets = [\"echo\"]"});
}

TEST_CASE_FIXTURE(Echo, "forecast: a recurrent network reads the values in turn") {
  must(
      run("train etth1 --quiet data.path=echo.csv data.split=fractions model.kind=gru "
          "model.context=8 model.horizon=2 model.patch=1 model.stride=1 model.layers=1 "
          "model.width=16 model.window_norm=last train.steps=300 train.eval_every=150 "
          "optim.learning_rate=0.02 data.targets=[\"echo\"] --out gru"));
  CHECK(Json::parse(must(run("eval gru --test --json")).out)["mse"].get<double>() < 0.7);
  must(run("sample gru --prompt end"));
  check_says(run("attention gru").err, {"has no attention to draw"});
}

TEST_CASE_FIXTURE(Echo, "forecast: only targets are shown") {
  must(run("sample run --out shown"));
  const std::string shown = read("shown.csv");
  CHECK(shown.starts_with("time,echo,echo forecast\n"));
  CHECK(read("shown.svg").find("noise") == std::string::npos);
  must(run("sample run --out again data.path=swapped.csv"));  // columns are found by name
  CHECK(read("again.csv") == shown);
  must(run("report run"));
  check_says(read("run/report.html"), {"of 1 of 1 forecast series", "Comparison with baselines"});

  const Model model(path("run"));
  CHECK(model.series() == Strings{"noise", "echo"});
  CHECK(model.targets() == Strings{"echo"});
  // The noise rises from 1/8 to 8/8, the echo to 4/8.
  std::vector<float> window;
  for (int row = 1; row <= 8; ++row) {
    window.push_back(static_cast<float>(row) / 8);
    window.push_back(static_cast<float>(row - 4) / 8);
  }
  const Matrix next = model.forecast(window);
  CHECK(next.rows == 4);
  REQUIRE(next.columns == 1);
  for (std::int64_t step = 0; step < 4; ++step)
    CHECK(next.row(step)[0] == doctest::Approx((5 + static_cast<double>(step)) / 8).epsilon(0.05));

  must(run(train + "--out patches model.kind=patches model.patch=4 model.stride=4 model.layers=1 "
                   "train.steps=4 data.targets=[\"echo\",\"noise\"]"));
  must(run("attention patches --index 1"));
  check_fails(here("attention patches --index 2"), {"--index 2: the series are 0 to 1"});
  check_prints(run("export patches --format onnx --out patches.onnx"), {"patches.onnx"});
}

TEST_CASE_FIXTURE(Echo, "forecast: a run with targets is resumed and verified") {
  must(
      run("train run/config.toml --out run --resume --quiet train.steps=310 "
          "optim.decay_steps=310"));
  must(run("verify run"));
  check_fails(here("train run/config.toml --out run --resume train.steps=320 "
                   "optim.decay_steps=320 data.targets=[\"noise\"]"),
              {"data.targets"});
  const std::pair<Words, Strings> wrong[] = {
      {"data.targets=[\"ehco\"]",
       {"--set: data.targets = [\"ehco\"]: no series is named ehco; expected one of data.columns: ",
        "noise, echo"}},
      {"data.targets=[\"echo\",\"echo\"]", {"echo is listed twice; remove one"}},
      {"data.targets=[\"echo\"] data.columns=[\"noise\"]",
       {"no series is named echo; expected one of data.columns: noise"}},
      {"data.targets=[\"echo\"] data.time_column=day", {"data.time_column = \"day\"", "no column"}},
      {"data.targets=[\"echo\"] data.path=none.csv", {"none.csv", "no such file"}},
      {"data.targets=[\"echo\"] data.path=run",
       {"data.columns is empty, and ",
        "run is not a file whose columns can be read; give a CSV file, or list the series in "
        "data.columns"}}};
  for (const auto& [words, parts] : wrong)
    check_fails(here(Words(train) + "--out new" + words), parts);
  check_fails(here("train etth1 --out new data.targets=[\"OT\"]"), {"no time series", "ETTh1.csv"});
  CHECK(!has("new"));
}

TEST_SUITE_END();

// Returns all windows of one series.
SeriesDataset windows_of(const std::vector<float>& values, const SeriesDataset::Window& window) {
  const std::int64_t rows = std::ssize(values);
  return SeriesDataset(Array::of(values, {rows, 1}), {0, rows}, window);
}

TEST_SUITE_BEGIN("series");

TEST_CASE("baselines: errors of a ramp have values computed by hand") {
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

TEST_CASE("baselines: values that nobody measured are no errors") {
  const float no = std::numeric_limits<float>::quiet_NaN();
  // The windows of the ramp, of whose targets 3 and 5 are measured once each.
  const SeriesDataset ramp = windows_of({-3, -1, no, 3, 5}, {2, 2});
  const std::vector<BaselineErrors> errors = baseline_errors(&ramp, ramp, 2);
  // (-3, -1 | no, 3) and (-1, -1 held | 3, 5).
  CHECK(errors[0].mse == (9 + 9 + 25) / 3.0);
  CHECK(errors[0].mae == (3 + 3 + 5) / 3.0);
  CHECK(errors[1].mse == (16 + 16 + 36) / 3.0);
  CHECK(errors[1].mae == (4 + 4 + 6) / 3.0);
  CHECK(errors[2].mse == (16 + 16 + 36) / 3.0);
}

TEST_CASE("bug: baselines: the season before an outage was not looked at") {
  const float no = std::numeric_limits<float>::quiet_NaN();
  // Season 2: the targets 8, 9 repeat 8, 9; the rows before them were not measured.
  const SeriesDataset outage = windows_of({8, 9, no, no, 8, 9}, {4, 2});
  CHECK(baseline_errors(nullptr, outage, 2)[2].mse == 0);
  CHECK(baseline_errors(nullptr, outage, 2)[1].mse == 0.5);  // the last value is 9
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
  // A sum of two waves satisfies a linear recurrence of four values.
  const SeriesDataset sum = windows_of(waves, {8, 5}), other = windows_of(noise, {8, 5});
  CHECK(baseline_errors(&sum, sum, 0).back().mse < 1e-10);
  const std::vector<BaselineErrors> of_noise = baseline_errors(&other, other, 0);
  CHECK(of_noise[0].mse == doctest::Approx(1).epsilon(0.1));  // the variance
  CHECK(of_noise[1].mse == doctest::Approx(2).epsilon(0.1));  // of a difference
  CHECK(of_noise[2].mse > 0.9);
}

TEST_CASE("baselines: a season is 24 hours, 7 days, 5 business days or 12 months") {
  const auto season = [](TimeStep::Unit unit, std::int64_t count, std::int64_t context) {
    return season_of({unit, count}, context);
  };
  using enum TimeStep::Unit;
  CHECK(season(microseconds, hour_us, 96) == 24);
  CHECK(season(microseconds, hour_us / 4, 96) == 96);
  CHECK(season(microseconds, day_us, 7) == 7);
  CHECK(season(business_days, 1, 7) == 5);
  CHECK(season(months, 1, 12) == 12);
  CHECK(season(months, 3, 12) == 4);
  CHECK(season(microseconds, hour_us, 23) == 0);  // longer than the context
  CHECK(season(microseconds, 7 * day_us, 96) == 0);
  CHECK(season(none, 0, 96) == 0);
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
