#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "autograd/buffer_pool.hpp"
#include "data/sampler.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/model.hpp"
#include "train/run/program_message.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/step.hpp"
#include "train/training.hpp"

// Compares trainings in a C++ program with `tapestry train`.
namespace tapestry {
namespace {

// Returns the state and all tensors of a training, but for its best loss so far, as one checksum.
std::string bits_of(Training& training, const TemporaryFolder& folder) {
  const std::string path = folder.path("bits.safetensors");
  training.save(path);
  const Checkpoint saved = load_checkpoint_metadata(path);
  Checksums sums{{"step", fmt::to_string(saved.state.step)},
                 {"position", fmt::to_string(saved.state.position)},
                 {"data", saved.state.data + combined(saved.state.splits)}};
  for (const SafetensorsEntry& entry : saved.reader->entries())
    sums[entry.name] = checksum_of(saved, entry);
  return combined(sums);
}

std::string trained_bits(const TrainingConfig& config, const TrainingData& data,
                         const TemporaryFolder& folder) {
  Training training(config, data);
  training.train();
  return bits_of(training, folder);
}

const char* const forecast_toml = R"(task = "forecast"
[data]
kind = "csv"
[model]
layers = 1
heads = 2
width = 8
context = 12
horizon = 3
patch = 4
stride = 4
dropout = 0.1
[train]
steps = 12
batch_size = 4
eval_every = 6
)";

// Returns two series with a period of 12 rows, (rows, 2), of which some values are not measured.
std::vector<double> two_series(std::int64_t rows) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double angle = static_cast<double>(row % 12) / 12 * 6.28;
    values.push_back(row % 17 == 3 ? NAN : std::sin(angle) + static_cast<double>(row) * 0.01);
    values.push_back(3 * std::cos(angle));
  }
  return values;
}

std::string csv_of(const Strings& names, const std::vector<double>& values) {
  std::string csv = fmt::format("{}\n", fmt::join(names, ","));
  for (std::size_t i = 0; i < values.size(); ++i)
    csv += fmt::format("{}{}", std::isnan(values[i]) ? "" : fmt::to_string(values[i]),
                       (i + 1) % names.size() == 0 ? '\n' : ',');
  return csv;
}

TEST_SUITE_BEGIN("training in programs");

TEST_CASE_FIXTURE(RunFixture, "trainings: have the lines and the bits of `tapestry train`") {
  for (const auto& [config, more] : {std::pair{"toy", "train.average_decay=0.9"},
                                     {"text", "train.micro_batches=2"},
                                     {"vae", "train.max_bad_steps=3"}}) {
    must_train(config, config, more);
    Strings lines, recorded;
    Training training({.path = path(std::string(config) + ".toml"), .overrides = {more}}, {},
                      {.on_metrics = [&](const TrainingMetrics& line) {
                        Json json(line.values);
                        json["step"] = line.step;
                        json["split"] = line.split;
                        lines.push_back(untimed({json}).front());
                      }});
    const TrainingMetrics last = training.train();
    training.save(path("saved.safetensors"));
    check_same_checkpoint(checkpoint(config), path("saved.safetensors"));
    for (Json line : metrics(config)) {
      for (const char* more_than_metrics : {"parameters_xxh3", "weights_xxh3"})
        line.erase(more_than_metrics);
      if (line["split"] != "test") recorded.push_back(untimed({line}).front());
    }
    CHECK(lines == recorded);
    CHECK(last.step == 40);
    CHECK(last.values.at("loss") == last_validation(config)["loss"]);
    CHECK(training.train().values == last.values);  // nothing is left to do
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "trainings: resume each other's checkpoints and those of the command") {
  must_train("text", "whole");
  const TrainingConfig config{.path = path("text.toml")};
  Training first(config);
  CHECK(first.task() == "language-model");
  std::map<std::string, double> values;
  while (first.steps() < 13) values = first.step().values;
  CHECK(values.at("loss") > 0);
  CHECK(values.at("lr") > 0);
  first.save(path("13.safetensors"));
  Training second(config);
  second.step();
  second.resume(path("13.safetensors"));
  CHECK(second.steps() == 13);
  const TrainingMetrics evaluated = second.evaluate();
  CHECK(evaluated.split == "val");
  CHECK(evaluated.values == first.evaluate().values);
  CHECK(Json(evaluated.values)["loss"] ==
        Json::parse(must_run("eval {} --json", path("13.safetensors")))["loss"]);
  second.train();
  Training third(config, {}, {});
  third.resume(checkpoint("whole"));
  CHECK(bits_of(second, *this) == bits_of(third, *this));

  fs::create_directories(path("copy"));
  fs::copy_file(path("13.safetensors"), checkpoint("copy"));
  must_train("text", "copy", "--resume");
  third.resume(checkpoint("copy"));
  CHECK(bits_of(second, *this) == bits_of(third, *this));

  CHECK_ERROR(Training({.path = path("text.toml"), .overrides = {"model.width=8"}})
                  .resume(path("13.safetensors")),
              "13.safetensors", "model.width");
  write("story.txt", story(21));
  CHECK_ERROR(Training(config).resume(path("13.safetensors")), "13.safetensors");
  CHECK_ERROR(third.resume(path("none.safetensors")), "none.safetensors");
  CHECK_THROWS_AS(second.step(), std::invalid_argument);  // beyond train.steps
}

TEST_CASE_FIXTURE(RunFixture, "trainings: read series in memory as a CSV file has them") {
  const std::vector<double> values = two_series(150);
  const Strings names{"load", "wind \"x\""};
  write("series.csv", csv_of({"load", "\"wind \"\"x\"\"\""}, values));
  for (const std::string more :
       {"data.targets=[\"load\"]", "data.missing=\"previous\"", "data.columns=[\"load\"]"}) {
    const TrainingConfig of_memory{.text = forecast_toml, .overrides = {more}};
    TrainingConfig of_file = of_memory;
    of_file.overrides.push_back("data.path=" + path("series.csv"));
    CHECK(trained_bits(of_memory, {.series = {.names = names, .values = values}}, *this) ==
          trained_bits(of_file, {}, *this));
  }
  Training training({.text = forecast_toml}, {.series = {.names = names, .values = values}});
  training.save(path("saved.safetensors"));
  CHECK(Json::parse(must_run("eval {} --json data.path={}", path("saved.safetensors"),
                             path("series.csv")))["loss"] == training.evaluate().values["loss"]);
  check_says(tapestry_run("eval {}", path("saved.safetensors")).err, {"/memory/series"});

  std::vector<double> wrong = values;
  wrong[6] = INFINITY;
  CHECK_ERROR(Training({.text = forecast_toml}, {.series = {.names = names, .values = wrong}}),
              "data in memory, series: row 3 (from 0): series load: inf");
  wrong[6] = 1e300;
  CHECK_ERROR(Training({.text = forecast_toml}, {.series = {.names = names, .values = wrong}}),
              "row 3 (from 0)", "1e+300; expected a number of float32");
  CHECK_ERROR(Training({.text = forecast_toml, .overrides = {"data.columns=[\"x\"]"}},
                       {.series = {.names = names, .values = values}}),
              "data.columns", "no series is named");
}

TEST_CASE_FIXTURE(RunFixture, "trainings: read texts, tables, images and folders in memory") {
  const std::string text = read("story.txt");
  TrainingConfig config{.path = path("text.toml"), .overrides = {"train.steps=9"}};
  CHECK(trained_bits(config, {.files = {{"any.txt", text}}}, *this) ==
        trained_bits(config, {}, *this));

  std::vector<Strings> rows;
  std::string csv = "\"size\",\"kind\",\"price, net\"\n";
  for (int i = 0; i < 60; ++i) {
    rows.push_back({fmt::to_string(i % 7), i % 3 == 0 ? "a \"b\"" : "c", fmt::to_string(i * 0.5)});
    csv += fmt::format("{},{},{}\n", i % 7, i % 3 == 0 ? "\"a \"\"b\"\"\"" : "c", i * 0.5);
  }
  config = {.text =
                "task = \"table\"\ndata.label_field = \"price, net\"\ndata.kind = \"csv\"\n"
                "model.layers = 1\nmodel.width = 4\ntrain.steps = 5\n"};
  const TrainingData table{.table = {.columns = {"size", "kind", "price, net"}, .rows = rows}};
  const std::string bits = trained_bits(config, table, *this);
  CHECK(trained_bits(config, {.files = {{"train.csv", csv}, {"test.csv", csv}}}, *this) != bits);
  config.overrides = {"data.path=" + write("table.csv", csv)};
  CHECK(trained_bits(config, {}, *this) == bits);

  write_idx(*this, "idx", {.count = 20, .side = 6});
  const ImageDataset train = load_images(path("idx"), {.classes = 2}).train;
  const Array pixels = all_images(train);
  config = {.text =
                "task = \"image-classification\"\nmodel.patch = 3\nmodel.width = 8\n"
                "model.layers = 1\nmodel.heads = 2\ntrain.steps = 5\ntrain.batch_size = 4\n"};
  const std::vector<std::int32_t> labels = train.labels();
  const TrainingData images{
      .images = {.height = 6, .width = 6, .pixels = pixels.values<float>(), .labels = labels}};
  const std::string of_images = trained_bits(config, images, *this);
  config.overrides = {"data.path=" + path("idx")};
  CHECK(trained_bits(config, {}, *this) == of_images);
}

TEST_CASE_FIXTURE(RunFixture, "trainings: refuse data that their task does not read") {
  const std::vector<double> values = two_series(60);
  const MemorySeries series{.names = {"a", "b"}, .values = values};
  CHECK_ERROR(Training({.path = path("text.toml")}, {.series = series}),
              "data in memory, series: are arrays, which this kind of data has no reader for");
  CHECK_ERROR(
      Training({.path = path("toy.toml")}, {.series = series}),
      "data in memory, series: the data of this config are synthetic; leave out these data");
  CHECK_ERROR(Training({.text = forecast_toml}, {.files = {{"x.csv", "\x1f\x8b"}}}), "gzip");
  CHECK_ERROR(Training({.text = forecast_toml}, {.files = {{"a/b", "x"}}}), "a/b");
  CHECK_ERROR(Training({.text = "task = \"forecast\"\nbogus = 1\n"}), "config:2", "bogus");
  CHECK_THROWS_AS(
      Training({.path = path("text.toml")}, {.files = {{"x", "text"}}, .series = series}),
      std::invalid_argument);
  CHECK_THROWS_AS(Training({}), std::invalid_argument);
  CHECK_THROWS_AS(
      Training({.text = forecast_toml}, {.series = {.names = {"a", "a"}, .values = values}}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      Training({.text = forecast_toml}, {.series = {.names = {"a", "b", "c", "d", "e", "f", "g"},
                                                    .values = std::span(values).first(20)}}),
      std::invalid_argument);
}

TEST_CASE("bug: trainings: the names of a table in memory were taken for a row") {
  std::vector<Strings> texts, numbers;
  for (int i = 0; i < 60; ++i) {
    texts.push_back({fmt::format("u\n{}", i % 7), fmt::format("v{}", i % 11), i % 2 ? "a" : "b"});
    numbers.push_back({fmt::to_string(i % 7), fmt::to_string(i % 11), fmt::to_string(i * 0.5)});
  }
  TrainingConfig config{.text =
                            "task = \"table\"\ndata.label_field = \"3\"\ndata.kind = \"csv\"\n"
                            "model.layers = 1\nmodel.width = 4\ntrain.steps = 1\n"};
  const Strings names{"1", "2", "3"}, one{"1"};
  for (const auto& rows : {texts, numbers})
    CHECK(Training(config, {.table = {.columns = names, .rows = rows}}).model().example_fields() ==
          Strings{"1", "2"});
  for (int i = 0; i < 60; ++i) numbers[i][0] = texts[i][0];  // cells of two lines
  numbers[20][2] = "three";
  CHECK_ERROR(Training(config, {.table = {.columns = names, .rows = numbers}}),
              "table in memory: row 20 (from 0): column 3: \"three\" is not a number");
  CHECK_THROWS_WITH_AS(Training(config, {.table = {.columns = names, .rows = std::span(&one, 1)}}),
                       doctest::Contains("row 0 (from 0) of the table has 1 cells"),
                       std::invalid_argument);
  config.overrides = {"data.label_field=\"none\""};
  CHECK_ERROR(Training(config, {.table = {.columns = names, .rows = texts}}),
              "table in memory: the columns: no column is named none");
}

TEST_CASE("bug: trainings: a table whose numbers have two values each could not be trained") {
  std::vector<Strings> rows;
  for (int i = 0; i < 60; ++i)
    rows.push_back({fmt::to_string(i % 2), fmt::to_string(i / 30), fmt::to_string(i * 0.5)});
  Training training({.text = "task = \"table\"\ndata.label_field = \"c\"\ndata.kind = \"csv\"\n"
                             "model.layers = 1\nmodel.width = 4\ntrain.steps = 2\n"},
                    {.table = {.columns = {"a", "b", "c"}, .rows = rows}});
  CHECK(training.train().step == 2);
}

TEST_CASE_FIXTURE(RunFixture, "bug: trainings: images in the order of channels last were trained") {
  const std::vector<float> pixels(20 * 36 * 3);
  const std::vector<std::int32_t> labels(20);
  const MemoryImages last{
      .channels = 6, .height = 6, .width = 3, .pixels = pixels, .labels = labels};
  CHECK_THROWS_WITH_AS(Training({.path = path("vae.toml")}, {.images = last}),
                       doctest::Contains("transpose images (N, height, width, channels)"),
                       std::invalid_argument);
  const std::vector<std::int32_t> large(20, 1 << 20);
  const MemoryImages many{
      .channels = 3, .height = 6, .width = 6, .pixels = pixels, .labels = large};
  CHECK_ERROR(Training({.path = path("vae.toml")}, {.images = many}), "a label is 1048576");
}

TEST_CASE("trainings: messages for programs keep the names of files") {
  CHECK(message_for_program("runs/memory/x: no such run\n") == "runs/memory/x: no such run");
  CHECK(message_for_program("/memory: two files, /memory/a.txt and \"/memory/b.txt\"") ==
        "data in memory: two files, data in memory, a.txt and \"data in memory, b.txt\"");
}

TEST_CASE("bug: trainings: messages for programs spoke of the command line") {
  for (const auto& [overrides, parts] : std::vector<std::pair<Strings, Strings>>{
           {{"train.steps=-1"}, {"train.steps = -1: expected"}},
           {{"train.stepz=1"}, {"unknown key train.stepz"}},
           {{}, {"data.path", "give a CSV with data.path=FILE"}},
           {{"train.steps"}, {"train.steps: expected key=value"}}}) {
    const std::string message =
        message_of([&] { Training({.text = forecast_toml, .overrides = overrides}); });
    check_says(message, parts);
    CHECK(!contains(message, "--"));
  }
}

BatchArray batch_array(const Array& array) {
  BatchArray given{.shape = {array.shape().begin(), array.shape().end()}};
  if (array.dtype() == DType::int32)
    given.integers.assign(array.values<std::int32_t>().begin(), array.values<std::int32_t>().end());
  else
    given.numbers.assign(array.values<float>().begin(), array.values<float>().end());
  return given;
}

TEST_CASE_FIXTURE(RunFixture, "trainings: take the batches of a function") {
  const std::vector<double> values = two_series(150);
  const TrainingData series{.series = {.names = {"a", "b"}, .values = values}};
  write("series.csv", csv_of({"a", "b"}, values));
  for (const auto& [text, data, more] :
       {std::tuple{forecast_toml, series, "data.path=" + path("series.csv")},
        {vae_toml, TrainingData(), std::string("train.steps=12")}}) {
    const TrainingConfig config{.text = text, .overrides = {"train.batch_size=4"}};
    const Config resolved = parse_config(text, "", {"train.batch_size=4", more});
    const std::unique_ptr<Task> task = make_task({.config = resolved});
    Sampler sampler = make_sampler(*task, resolved);
    TrainingConfig fed = config;
    fed.overrides.emplace_back("train.micro_batches=2");
    TrainingData with_batches = data;
    std::vector<std::int64_t> numbers;
    with_batches.batches = [&](std::int64_t number) {
      numbers.push_back(number);
      sampler.seek(number * 2);
      const Batch batch = task->training_data().batch(sampler.next(2));
      return TrainingBatch{batch_array(batch.inputs), batch_array(batch.targets)};
    };
    TrainingConfig whole = fed;
    CHECK(trained_bits(fed, with_batches, *this) == trained_bits(whole, data, *this));
    CHECK(numbers.front() == 0);
    CHECK(numbers[5] == 5);
  }
  const TrainingConfig config{.path = path("text.toml")};
  const auto with = [&](const TrainingBatch& batch) {
    Training training(config, {.batches = [&](std::int64_t) { return batch; }});
    training.step();
  };
  const BatchArray good{.shape = {1, 8}, .integers = std::vector<std::int32_t>(8, 1)};
  with({good, good});
  for (const BatchArray& bad :
       {BatchArray{}, BatchArray{.shape = {1, 8}, .numbers = std::vector<float>(8)},
        BatchArray{.shape = {8}, .integers = std::vector<std::int32_t>(8)},
        BatchArray{.shape = {2, 4}, .integers = std::vector<std::int32_t>(8)},
        BatchArray{.shape = {1, 8}, .integers = std::vector<std::int32_t>(8, 1000)},
        BatchArray{.shape = {1, 8}, .integers = std::vector<std::int32_t>(8, -7)}}) {
    CHECK_THROWS_AS(with({bad, good}), std::invalid_argument);
    CHECK_THROWS_AS(with({good, bad}), std::invalid_argument);
  }
  for (const double count : {-1.0, 9.0, double{NAN}, double{INFINITY}}) {
    CAPTURE(count);
    CHECK_THROWS_WITH_AS(with({good, good, count}),
                         doctest::Contains("expected 0 to 8, the number"), std::invalid_argument);
  }
  with({good, good, 8});
  const BatchArray image{.shape = {1, 36}, .numbers = std::vector<float>(36)};
  const std::vector<float> pixels(40 * 36);
  std::vector<std::int32_t> labels(40);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 2);
  for (const std::int32_t label : {-7, 2, 99}) {
    Training classes({.text = "task = \"image-classification\"\nmodel.patch = 3\nmodel.width = 8\n"
                              "model.layers = 1\nmodel.heads = 2\ntrain.batch_size = 4\n"},
                     {.images = {.height = 6, .width = 6, .pixels = pixels, .labels = labels},
                      .batches = [&](std::int64_t) {
                        return TrainingBatch{image, {.shape = {1}, .integers = {label}}};
                      }});
    CHECK_THROWS_AS(classes.step(), std::invalid_argument);
  }
  CHECK_ERROR(Training({.path = "karate", .overrides = {}},
                       {.batches = [](std::int64_t) { return TrainingBatch(); }}),
              "auxiliary inputs");
}

TEST_CASE("bug: trainings: faults of a function's batches named examples that nobody read") {
  const std::vector<double> values = two_series(150);
  const auto message_of_step = [&](float input, float target) {
    TrainingBatch batch{{.shape = {4, 12, 2}, .numbers = std::vector<float>(96)},
                        {.shape = {4, 3, 2}, .numbers = std::vector<float>(24, target)}};
    for (std::size_t i = 0; i < 96; ++i) batch.inputs.numbers[i] = static_cast<float>(i % 7);
    batch.inputs.numbers[5] = input;
    Training training({.text = forecast_toml}, {.series = {.names = {"a", "b"}, .values = values},
                                                .batches = [&](std::int64_t) { return batch; }});
    try {
      training.step();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message_of_step(1, 1).empty());
  check_says(message_of_step(NAN, 1), {"the batch's inputs are not finite; batches(0); correct"});
  check_says(message_of_step(1, NAN), {"no target of batches(0) has a loss (Batch::count is 0)"});
}

TEST_CASE_FIXTURE(RunFixture, "trainings: stay within a limit of memory, or refuse") {
  const TrainingConfig config{.path = path("text.toml")};
  Training unlimited(config);
  unlimited.train();
  std::int64_t limit = 1 << 12;
  Strings messages;
  for (bool fits = false; !fits; limit *= 2) {
    const std::string message = message_of([&] {
      Training training(config, {}, {.memory_limit = limit});
      training.train();
      CHECK(bits_of(training, *this) == bits_of(unlimited, *this));
      fits = true;
    });
    if (!fits) check_says(messages.emplace_back(message), {"out of memory", "the limit is"});
  }
  CHECK(messages.size() > 3);
  check_says(messages.front(), {"the limit is 4.1 kB"});
  check_says(messages.back(), {"lower train.", "batch"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: trainings: a model that did not fit left no memory to others" *
                                  not_sanitized("it reserves all memory of the machine")) {
  CHECK_THROWS_WITH_AS(
      Training({.path = "sort", .overrides = {"model.layers=1000", "model.width=4096"}}),
      doctest::Contains("too large"), std::runtime_error);
  const Array large({128 << 20}, DType::float32);  // more than is left
  Training training({.path = path("toy.toml")});
  CHECK(training.step().step == 1);
}

TEST_CASE_FIXTURE(RunFixture, "trainings: empty data are refused") {
  const auto refused = [&](const TrainingData& data, const char* what) {
    CHECK_THROWS_WITH_AS(Training({.path = path("toy.toml")}, data), doctest::Contains(what),
                         std::invalid_argument);
  };
  refused({.series = {.names = {"a"}}}, "0 values of 1 series");
  refused({.images = {.height = 2, .width = 2}}, "0 pixels and 0 labels");
  refused({.table = {.columns = {"a"}}}, "a table of 1 columns and 0 rows");
}

TEST_CASE_FIXTURE(RunFixture, "bug: trainings: an object that was moved from ended the process") {
  Training from({.path = path("vae.toml")});
  Training to(std::move(from));
  CHECK_THROWS_WITH_AS(from.step(), "Training: was moved to another object; use that one",
                       std::invalid_argument);
  CHECK_THROWS_AS(from.model(), std::invalid_argument);
  Model first = to.model();
  const Model second(std::move(first));
  CHECK_THROWS_WITH_AS(first.task(), "Model: was moved to another object; use that one",
                       std::invalid_argument);
  CHECK(second.task() == "vae");
}

TEST_CASE_FIXTURE(RunFixture, "trainings: stop when the program says so") {
  const auto source = std::make_unique<std::stop_source>();
  Training training({.path = path("toy.toml")}, {},
                    {.on_metrics =
                         [&](const TrainingMetrics& line) {
                           if (line.step >= 9) source->request_stop();
                         },
                     .stop = source->get_token()});
  CHECK(training.train().values.empty());
  CHECK(training.steps() == 9);
  CHECK(training.train().values.empty());
  CHECK(training.steps() == 9);
  CHECK(!training.evaluate().values.empty());  // the stop was before
  training.step();
  CHECK(training.steps() == 10);
  Strings said;
  Training other(
      {.path = path("toy.toml"), .overrides = {"train.time_limit=1e-9", "train.steps=1000000"}}, {},
      {.on_message = [&](const std::string& message) { said.push_back(message); }});
  CHECK(other.train().values.empty());
  CHECK(other.steps() < 1000000);
  CHECK(said ==
        Strings{fmt::format("ends after step {}: train.time_limit = 1e-09 minutes have passed",
                            other.steps())});
  CHECK(!other.evaluate().values.empty());
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: trainings: a method called within another had no defined result") {
  Training* called = nullptr;
  Strings refused;
  const auto call_all = [&] {
    for (const std::function<void()>& call : std::vector<std::function<void()>>{
             [&] { called->step(); }, [&] { called->train(); }, [&] { called->evaluate(); },
             [&] { called->resume(path("saved.safetensors")); }})
      refused.push_back(misuse_of(call));
    return called->steps();
  };
  Training training({.path = path("toy.toml"), .overrides = {"train.steps=10"}}, {},
                    {.on_metrics = [&](const TrainingMetrics&) {
                      called->save(path("saved.safetensors"));
                      call_all();
                    }});
  called = &training;
  training.train();
  CHECK(refused.size() >= 4);
  for (const std::string& message : refused)
    check_says(message, {"train() of this training is not finished; call ", "() after it"});
  CHECK(bits_of(training, *this) ==
        trained_bits({.path = path("toy.toml"), .overrides = {"train.steps=10"}}, {}, *this));

  refused.clear();
  const BatchArray tokens{.shape = {1, 8}, .integers = std::vector<std::int32_t>(8, 1)};
  Training fed({.path = path("text.toml")}, {.batches = [&](std::int64_t) {
                 call_all();
                 refused.push_back(misuse_of([&] { called->save(path("saved.safetensors")); }));
                 return TrainingBatch{tokens, tokens};
               }});
  called = &fed;
  fed.step();
  CHECK(refused.size() == 5);
  for (const std::string& message : refused) check_says(message, {"step() of this training"});
  CHECK(fed.steps() == 1);
  check_says(misuse_of([&] { fed.save(""); }), {"save: the path is empty"});
  check_says(misuse_of([&] { fed.resume(""); }), {"resume: the path is empty"});
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("threads");

TEST_CASE_FIXTURE(RunFixture, "trainings: several at once have the bits that each has alone") {
  const std::vector<double> values = two_series(150);
  const std::vector<std::pair<TrainingConfig, TrainingData>> all{
      {{.path = path("text.toml"), .overrides = {"train.precision=\"bf16\""}}, {}},
      {{.path = path("vae.toml"), .overrides = {"train.average_decay=0.9"}}, {}},
      {{.text = forecast_toml}, {.series = {.names = {"a", "b"}, .values = values}}}};
  Strings alone, at_once(all.size());
  for (const auto& [config, data] : all) alone.push_back(trained_bits(config, data, *this));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      const TemporaryFolder folder;
      at_once[i] = trained_bits(all[i].first, all[i].second, folder);
    });
  threads.clear();
  CHECK(at_once == alone);
}

TEST_CASE("trainings: a model shares the weights, and sees those of one step in other threads") {
  const std::vector<double> values = two_series(150);
  const TrainingConfig config{.text = forecast_toml, .overrides = {"train.steps=40"}};
  const TrainingData data{.series = {.names = {"a", "b"}, .values = values}};
  const std::vector<float> window(24, 0.5);
  std::set<std::vector<float>> of_steps;
  Training training(config, data);
  const std::int64_t before = memory_use().bytes_in_use;
  const Model model = training.model();
  CHECK(memory_use().bytes_in_use == before);
  CHECK(model.series() == Strings{"a", "b"});
  of_steps.insert(model.forecast(window).values);
  while (training.steps() < 40) {
    training.step();
    CHECK(of_steps.insert(model.forecast(window).values).second);
  }
  std::optional<Training> other(std::in_place, config, data);
  std::optional<Model> served(other->model());
  std::atomic<bool> is_done = false;
  std::atomic<int> calls = 0, foreign = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 2; ++thread)
    threads.emplace_back([&] {
      while (!is_done) {
        foreign += !of_steps.contains(served->forecast(window).values);
        ++calls;
      }
    });
  while (calls == 0) std::this_thread::yield();
  other->train();
  is_done = true;
  threads.clear();
  CHECK(foreign == 0);
  other.reset();
  CHECK(served->forecast(window).values == model.forecast(window).values);
}

TEST_CASE_FIXTURE(RunFixture, "trainings: a step within a call of the shared model is refused") {
  Training training({.path = path("text.toml")});
  const Model model = training.model();
  const auto take_step = [&](std::string_view) {
    CHECK(model.vocabulary() > 0);
    CHECK_THROWS_AS(training.step(), std::invalid_argument);
    return false;
  };
  model.generate("green", {.tokens = 5}, take_step);
  training.step();
  CHECK(training.steps() == 1);
  CHECK_ERROR(Training({.path = path("toy.toml")}).model(), "toy-sequence");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
