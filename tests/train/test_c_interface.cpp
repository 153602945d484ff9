#include <doctest/doctest.h>

#include <thread>

#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/interface/tapestry.h"
#include "train/model.hpp"

// Tests the errors and callbacks of the C functions; test_interfaces.cpp compares what they compute
// with Model.
namespace tapestry {
namespace {

struct FreeModel {
  void operator()(tapestry_model* model) const { tapestry_free(model); }
};
using CModel = std::unique_ptr<tapestry_model, FreeModel>;

CModel load(const std::string& run) {
  tapestry_model* model = nullptr;
  REQUIRE(tapestry_load(run.c_str(), &model) == TAPESTRY_OK);
  return CModel(model);
}

// A call that fails, its code, and parts of its message.
struct Failing {
  std::function<tapestry_code()> call;
  Strings parts{};
  tapestry_code code = TAPESTRY_WRONG_ARGUMENT;
};

void check_all_fail(const std::vector<Failing>& calls) {
  for (const Failing& one : calls) {
    const tapestry_code code = one.call();
    const std::string message = tapestry_error();
    CAPTURE(message);
    CHECK(code == one.code);
    CHECK(lines_of(message).size() == 1);
    check_says(message, one.parts);
  }
}

// Collects texts, and continues until there are as many as `most`.
struct Taken {
  std::size_t most = 1000;
  Strings texts{};
};
int take_text(void* user, const char* text, std::size_t bytes) {
  auto* taken = static_cast<Taken*>(user);
  CHECK(text[bytes] == '\0');
  taken->texts.emplace_back(text, bytes);
  return taken->texts.size() < taken->most;
}

std::string joined(const Strings& texts) { return fmt::format("{}", fmt::join(texts, "")); }

TEST_SUITE_BEGIN("c interface");

TEST_CASE_FIXTURE(RunFixture,
                  "c interface: a call that fails has a code and a message, and writes nothing") {
  must_train("text", "words");
  must_train("vae", "plain", "model.sigma=none model.beta=1");
  const CModel words = load(path("words")), plain = load(path("plain"));
  const tapestry_model *model = words.get(), *images = plain.get();
  const std::string nowhere = path("nowhere");
  std::vector<std::int32_t> tokens = {1, 2, 3}, strange = {1, 99}, written(9, -7);
  std::vector<float> numbers(785), out(1000, -7);
  const char* text = "before";
  const char* const texts[] = {"green", nullptr};
  std::size_t count = 77, bytes = 78;
  std::int64_t size = 79;
  tapestry_model* loaded = nullptr;
  tapestry_generation hot = TAPESTRY_GENERATION, older = TAPESTRY_GENERATION;
  hot.temperature = 101;
  older.struct_size = 8;
  float* const all = out.data();
  check_all_fail({
      {[&] { return tapestry_load(nowhere.c_str(), &loaded); },
       {"no such run"},
       TAPESTRY_WRONG_INPUT},
      {[&] { return tapestry_load(nullptr, &loaded); }, {"load: a pointer"}},
      {[&] { return tapestry_set_threads(0); }, {"0"}},
      {[&] { return tapestry_size(model, TAPESTRY_HEIGHT, &size); }, {"vae"}},
      {[&] { return tapestry_size(model, 99, &size); }, {"property 99"}},
      {[&] { return tapestry_size(nullptr, TAPESTRY_TASK, &size); }, {"size:"}},
      {[&] { return tapestry_name(model, TAPESTRY_TASK, 1, &text); }, {"index 1; expected 0 to 0"}},
      {[&] { return tapestry_tokenize(model, "\xc3\x9f", nullptr, 0, &count); },
       {"\xc3\x9f"},
       TAPESTRY_WRONG_INPUT},
      {[&] { return tapestry_tokenize(model, "green", written.data(), 4, &count); },
       {"an array of 4 tokens; expected 5"}},
      {[&] { return tapestry_detokenize(model, strange.data(), 2, &text, &bytes); }, {"token 99"}},
      {[&] { return tapestry_detokenize(model, nullptr, 2, &text, &bytes); },
       {"a pointer is null"}},
      {[&] { return tapestry_logits(model, tokens.data(), 3, all, 10); },
       {"an array of 10 numbers; expected 3 x"}},
      {[&] { return tapestry_logits(model, tokens.data(), 0, all, 0); }, {"no tokens"}},
      {[&] { return tapestry_generate(model, "", &hot, nullptr, nullptr, &text, &bytes); },
       {"temperature = 101"}},
      {[&] { return tapestry_generate(model, "", &older, nullptr, nullptr, &text, &bytes); },
       {"struct_size = 8"}},
      {[&] {
         return tapestry_generate_tokens(model, tokens.data(), 3, nullptr, written.data(), 0,
                                         &count);
       },
       {"an array of 0 tokens"}},
      {[&] { return tapestry_classify_texts(model, texts, 2, all, 2); }, {"a pointer is null"}},
      {[&] { return tapestry_translate(model, "a", &text, &bytes); }, {"expected translation"}},
      {[&] { return tapestry_forecast(model, numbers.data(), 5, all, 5); }, {"expected forecast"}},
      {[&] { return tapestry_classify(images, numbers.data(), 784, all, 10); },
       {"expected image-classification"}},
      {[&] { return tapestry_read_pictures(images, nullptr, 0, all, 0); }, {"no paths"}},
      {[&] { return tapestry_encode(images, numbers.data(), 785, all, nullptr, 2); },
       {"785 numbers"}},
      {[&] { return tapestry_encode(images, numbers.data(), 784, all, nullptr, 3); },
       {"3 numbers; expected 1 x 2"}},
      {[&] { return tapestry_encode(images, numbers.data(), 784, all, all + 2, 2); },
       {"2 numbers; expected 0 x 0"}},
      {[&] { return tapestry_decode(images, numbers.data(), 3, all, 784); },
       {"3 numbers; expected 2 for each"}},
      {[&] { return tapestry_decode(images, numbers.data(), 2, nullptr, 784); },
       {"a pointer is null"}},
      {[&] { return tapestry_reconstruct(images, numbers.data(), 785, all); }, {"785 numbers"}},
      {[&] { return tapestry_predict(model, texts, 1, nullptr, nullptr); }, {"a pointer is null"}},
      {[&] { return tapestry_read_metrics(nowhere.c_str(), take_text, nullptr); },
       {"no such run"},
       TAPESTRY_WRONG_INPUT},
  });
  CHECK(std::ranges::all_of(out, [](float x) { return x == -7; }));
  CHECK(std::ranges::all_of(written, [](std::int32_t x) { return x == -7; }));
  CHECK(std::string(text) == "before");
  CHECK(count == 77);
  CHECK(bytes == 78);
  CHECK(size == 79);
  CHECK(loaded == nullptr);
  tapestry_free(nullptr);
}

TEST_CASE_FIXTURE(RunFixture, "c interface: the message of an error belongs to its thread") {
  CHECK(tapestry_set_threads(-1) == TAPESTRY_WRONG_ARGUMENT);
  const std::string own = tapestry_error();
  std::string others = "unread";
  std::jthread([&] { others = tapestry_error(); }).join();
  CHECK(own != "");
  CHECK(others == "");
  CHECK(tapestry_error() == own);
}

TEST_CASE_FIXTURE(RunFixture, "c interface: a callback receives what is generated, and ends it") {
  must_train("text", "words");
  const CModel model = load(path("words"));
  tapestry_generation options = TAPESTRY_GENERATION;
  options.tokens = 40;
  const char* const stops[] = {"zzz"};
  options.stop = stops;
  options.stop_count = 1;
  const char* text = nullptr;
  std::size_t bytes = 0;
  Taken taken, few{.most = 3};
  REQUIRE(tapestry_generate(model.get(), "green b", &options, take_text, &taken, &text, &bytes) ==
          TAPESTRY_OK);
  const std::string whole = text;
  CHECK(whole == Model(path("words")).generate("green b", {.tokens = 40}));
  CHECK(joined(taken.texts) == whole);
  CHECK(bytes == whole.size());
  REQUIRE(tapestry_generate(model.get(), "green b", &options, take_text, &few, &text, nullptr) ==
          TAPESTRY_OK);
  CHECK(few.texts.size() == 3);
  CHECK(joined(few.texts) == text);
  std::vector<std::int32_t> prompt = {1, 2}, tokens(5);
  std::size_t count = 0;
  REQUIRE(tapestry_generate_tokens(model.get(), prompt.data(), 2, &options, tokens.data(), 5,
                                   &count) == TAPESTRY_OK);
  CHECK(count == 5);
  CHECK(tokens == Model(path("words")).generate(prompt, {.tokens = 5}));
}

TEST_CASE_FIXTURE(RunFixture, "c interface: a forecast with a cycle needs the time of its window") {
  must_run(Words("train waves --quiet --out {} train.steps=6 model.cycle=5", path("waves")) +
           small("forecast"));
  const CModel model = load(path("waves"));
  const Model same(path("waves"));
  std::vector<float> window(12 * 3, 0.5F), found(3 * 3, -7);
  const auto forecast = [&](std::int64_t first_step, std::size_t size) {
    return tapestry_forecast_at(model.get(), window.data(), 36, first_step, found.data(), size);
  };
  check_all_fail({{[&] { return tapestry_forecast(model.get(), window.data(), 36, &found[0], 9); },
                   {"model.cycle", "give first_step", "tapestry_forecast_at"}},
                  {[&] { return forecast(3, 8); }, {"forecast_at: an array of 8 numbers"}}});
  CHECK(std::ranges::all_of(found, [](float x) { return x == -7; }));
  for (const std::int64_t first_step : {-4, 0, 3}) {
    REQUIRE(forecast(first_step, 9) == TAPESTRY_OK);
    CHECK(found == same.forecast(window, first_step).values);
  }
  CHECK(found != same.forecast(window, 4).values);
}

TEST_CASE_FIXTURE(RunFixture, "c interface: read_metrics passes the lines of a run") {
  must_train("toy", "run");
  Taken all, two{.most = 2};
  REQUIRE(tapestry_read_metrics(path("run").c_str(), take_text, &all) == TAPESTRY_OK);
  CHECK(all.texts == lines_of(read("run/metrics.jsonl")));
  REQUIRE(tapestry_read_metrics(path("run").c_str(), take_text, &two) == TAPESTRY_OK);
  CHECK(two.texts.size() == 2);
  write("run/metrics.jsonl", "{\"step\": 1}\n");
  check_all_fail({{[&] { return tapestry_read_metrics(path("run").c_str(), take_text, &all); },
                   {"metrics.jsonl:1", "not a line of metrics"},
                   TAPESTRY_WRONG_INPUT}});
}

TEST_CASE_FIXTURE(
    RunFixture,
    "c interface: a training has the bits and lines of `tapestry train`, can be ended, "
    "and resumed") {
  must_train("text", "expected", "train.steps=30");
  const std::string config = path("text.toml"), folder = path("run"), cut = path("cut");
  const char* const overrides[] = {"train.steps=30"};
  tapestry_training training = TAPESTRY_TRAINING, older = TAPESTRY_TRAINING, wrong;
  training.config = config.c_str();
  training.overrides = overrides;
  training.override_count = 1;
  Taken all, few{.most = 3};
  const char* run = nullptr;
  REQUIRE(tapestry_train(&training, folder.c_str(), 0, take_text, &all, &run) == TAPESTRY_OK);
  CHECK(run == folder);
  CHECK(all.texts == lines_of(read("run/metrics.jsonl")));
  check_same_run(*this, "run", "expected");
  REQUIRE(tapestry_train(&training, cut.c_str(), 0, take_text, &few, nullptr) == TAPESTRY_OK);
  CHECK(few.texts.size() == 3);
  CHECK(metrics("cut").size() < all.texts.size());
  REQUIRE(tapestry_train(&training, cut.c_str(), 1, nullptr, nullptr, nullptr) == TAPESTRY_OK);
  check_same_run(*this, "cut", "expected");

  older.struct_size = 8;
  wrong = training;
  const char* const unknown[] = {"train.stepz=30"};
  wrong.overrides = unknown;
  run = nullptr;
  check_all_fail(
      {{[&] { return tapestry_train(&wrong, cut.c_str(), 1, nullptr, nullptr, &run); },
        {"unknown key train.stepz"},
        TAPESTRY_WRONG_INPUT},
       {[&] { return tapestry_train(&training, cut.c_str(), 0, nullptr, nullptr, &run); },
        {"cut"},
        TAPESTRY_WRONG_INPUT},
       {[&] { return tapestry_train(&older, cut.c_str(), 0, nullptr, nullptr, &run); },
        {"train: struct_size = 8"}}});
  CHECK(run == nullptr);
}

TEST_CASE_FIXTURE(RunFixture, "c interface: a training in memory has the bits of one on files") {
  must_train("text", "words");
  const std::string config = path("text.toml"), saved = path("saved.safetensors"),
                    story = read("story.txt");
  tapestry_training training = TAPESTRY_TRAINING;
  training.config = config.c_str();
  tapestry_data data = TAPESTRY_DATA, series = TAPESTRY_DATA;
  const char *const names[] = {"story.txt"}, *const contents[] = {story.data()};
  const std::size_t bytes = story.size();
  data.names = series.names = names;
  data.name_count = series.name_count = 1;
  data.contents = contents;
  data.bytes = &bytes;
  const std::vector<double> numbers(40);
  series.series = numbers.data();
  series.rows = numbers.size();
  Taken all;
  tapestry_model* model = nullptr;
  REQUIRE(tapestry_train_in_memory(&training, &data, saved.c_str(), take_text, &all, &model) ==
          TAPESTRY_OK);
  const CModel trained(model);
  const char* text = nullptr;
  REQUIRE(tapestry_generate(model, "green", nullptr, nullptr, nullptr, &text, nullptr) ==
          TAPESTRY_OK);
  CHECK(text == Model(checkpoint("words")).generate("green"));
  CHECK(Model(saved).generate("green") == text);
  CHECK(all.texts.size() == metrics("words").size());
  model = nullptr;
  check_all_fail({{[&] {
                     return tapestry_train_in_memory(&training, &series, nullptr, nullptr, nullptr,
                                                     &model);
                   },
                   {"data in memory, series: are arrays"},
                   TAPESTRY_WRONG_INPUT}});
  const auto refuse_checkpoint = [&](const std::string& at) {
    all.texts.clear();
    const tapestry_code code =
        tapestry_train_in_memory(&training, &data, at.c_str(), take_text, &all, nullptr);
    CHECK(all.texts.empty());  // bug: the training had run before the path was tried
    return code;
  };
  check_all_fail({{[&] { return refuse_checkpoint(""); }, {"the path of the checkpoint is empty"}},
                  {[&] { return refuse_checkpoint(path()); }, {"is a folder"}},
                  {[&] { return refuse_checkpoint(path("none/x.safetensors")); },
                   {"x.safetensors: cannot open: there is no folder"},
                   TAPESTRY_FAILED}});
  CHECK(model == nullptr);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
