#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "autograd/buffer_pool.hpp"
#include "data/images/images.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/model.hpp"

// Compares trained models in a C++ program with the commands.
namespace tapestry {
namespace {

// Returns the output of the command.
std::string said(const Words& words) { return must_run(words); }

// `tapestry train CONFIG` of a shipped config made small.
void train_small(const RunFixture& fixture, const std::string& config, const std::string& task,
                 const Words& more = {}, const std::string& kind = "") {
  said(Words("train {} --quiet --out {} train.steps=20", config, fixture.path(config)) +
       small(task, kind) + more);
}

Array clothes(std::int64_t count, SyntheticSplit split) {
  return all_images(make_clothes(count, 1, split));
}

std::vector<float> some_images(std::int64_t count) {
  const Array images = clothes(count, SyntheticSplit::test);
  return {images.values<float>().begin(), images.values<float>().end()};
}

std::vector<Words> cells_of(const std::string& csv) {
  std::vector<Words> rows;
  for (const std::string& line : lines_of(csv)) {
    Strings& row = rows.emplace_back();
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) row.push_back(cell);
  }
  return rows;
}

TEST_SUITE_BEGIN("model");

TEST_CASE_FIXTURE(RunFixture, "model: generates the text of `tapestry sample` with the same seed") {
  must_train("text", "words");
  must_train("text", "recurrent", "model.kind=recurrent");
  must_train("text", "rounded", "train.precision=bf16");
  for (const std::string run : {"words", "recurrent", "rounded"}) {
    const std::string path = this->path(run), prompt = "green b";
    const Model model(path);
    CHECK(model.task() == "language-model");
    CHECK(prompt + model.generate(prompt, {.tokens = 40}) + "\n" ==
          said({"sample", path, "--prompt", prompt, "--tokens", "40"}));
    Strings pieces;
    const GenerationOptions options{.tokens = 90,
                                    .temperature = 0.7,
                                    .top_k = 9,
                                    .top_p = 0.9,
                                    .min_p = 0.01,
                                    .repetition_penalty = 1.1,
                                    .seed = 7,
                                    .stop = {"zzz", ""}};
    const std::string text = model.generate(prompt, options, [&](std::string_view piece) {
      pieces.emplace_back(piece);
      return true;
    });
    CHECK(std::accumulate(pieces.begin(), pieces.end(), std::string()) == text);
    CHECK(pieces.size() > 10);
    CHECK(
        prompt + text + "\n" ==
        said(
            {"sample",  path, "--prompt", prompt, "--tokens", "90",   "--temperature",        "0.7",
             "--top-k", "9",  "--top-p",  "0.9",  "--min-p",  "0.01", "--repetition-penalty", "1.1",
             "--seed",  "7",  "--stop",   "zzz"}));
    CHECK(model.generate("").size() == 500);
    CHECK(Model(best(run)).generate("", {.tokens = 9}) == model.generate("", {.tokens = 9}));
  }
}

TEST_CASE_FIXTURE(RunFixture, "model: tokens and logits agree with the text that it generates") {
  must_train("text", "run");
  const Model model(path("run"));
  const Tokens prompt = model.tokenize("3 green");
  CHECK(prompt.size() == 7);
  CHECK(model.detokenize(prompt) == "3 green");
  CHECK(model.context() == 8);
  const GenerationOptions greedy{.tokens = 20, .temperature = 0};
  const Tokens written = model.generate(prompt, greedy);
  CHECK(model.detokenize(written) == model.generate("3 green", greedy));
  const Matrix logits = model.logits(prompt);
  CHECK(logits.rows == 7);
  CHECK(logits.columns == model.vocabulary());
  const auto last = logits.row(6);
  CHECK(std::ranges::max_element(last) - last.begin() == written.front());

  // Returns nats per character of the validation text as `eval` does: windows of 8, targets one
  // further.
  const std::string text = story(20), held = text.substr(text.size() - text.size() / 10);
  const Tokens tokens = model.tokenize(held);
  double nats = 0, count = 0;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += 8) {
    const std::size_t end = std::min(begin + 8, tokens.size() - 1);
    const Matrix window = model.logits(std::span(tokens).subspan(begin, end - begin));
    for (std::size_t t = begin; t < end; ++t, ++count) {
      const auto row = window.row(t - begin);
      double sum = 0;
      for (const float logit : row) sum += std::exp(logit);
      nats += std::log(sum) - row[tokens[t + 1]];
    }
  }
  CHECK(nats / count == doctest::Approx(eval("run")["loss"].get<double>()).epsilon(1e-5));

  Tokens taken;
  model.generate(prompt, greedy, TakeToken([&](std::int32_t token) {
                   taken.push_back(token);
                   return taken.size() < 5;
                 }));
  CHECK(taken == Tokens(written.begin(), written.begin() + 5));
  std::string pieces;
  const std::string cut = model.generate("3 green", greedy, [&](std::string_view piece) {
    pieces += piece;
    return pieces.size() < 3;
  });
  CHECK(cut == pieces);
  CHECK(cut.size() == 3);
  const std::string whole = model.generate("3 green", greedy), stop = whole.substr(4, 2);
  GenerationOptions stopped = greedy;
  stopped.stop = {stop};
  CHECK(model.generate("3 green", stopped) == whole.substr(0, whole.find(stop)));
}

TEST_CASE_FIXTURE(RunFixture, "model: gives the names and translations of `tapestry sample`") {
  const std::string list = write(
      "names.txt", "ada\nboole\ncarol\ndirk\nedgar\nfrege\ngrace\nhilda\nida\njohn\nkurt\nlisp\n");
  train_small(*this, "names", "language-model", {"data.path=" + list, "model.context=12"});
  const std::string names = path("names");
  CHECK("bo" + Model(names).generate("bo") + "\n" ==
        said({"sample", names, "--count", "1", "--prompt", "bo"}));

  train_small(*this, "dates", "translation", {"data.examples=50", "data.held_back=20"});
  const std::string dates = path("dates"), day = "the 23rd of July 1903";
  CHECK(Model(dates).translate(day) + "\n" == said({"sample", dates, "--prompt", day}));
  check_says(misuse_of([&] { Model(dates).translate(""); }),
             {"translate: 0 tokens; expected 1 to"});
}

TEST_CASE_FIXTURE(RunFixture, "model: encodes images as `tapestry latent` does, and decodes them") {
  must_train("vae", "run");
  const Model model(path("run"));
  CHECK(model.height() * model.width() == 784);
  CHECK(model.class_names().size() == 10);
  said({"latent", path("run"), "--out", path("codes")});
  const auto table = cells_of(read("codes.csv"));
  const std::vector<float> images = some_images(10);
  const Latents latents = model.encode(images);
  REQUIRE(latents.means.rows == 10);
  REQUIRE(latents.means.columns == model.latent_dimensions());
  int compared = 0;
  for (const auto& row : table)
    if (row[1] == "test")
      for (std::size_t z = 0; z < 2; ++z, ++compared)
        CHECK(latents.means.row(std::stoll(row[0]))[z] ==
              doctest::Approx(std::stod(row[3 + z])).epsilon(1e-6));
  CHECK(compared == 20);

  // KL(q ‖ N(0, 1)) = ½ Σ (μ² + σ² - 1 - log σ²) (Kingma & Welling 2013, appendix B), as `eval`'s
  double kl = 0;
  for (std::size_t i = 0; i < latents.means.values.size(); ++i) {
    const double mean = latents.means.values[i], log = latents.log_variances.values[i];
    kl += (mean * mean + std::exp(log) - 1 - log) / 2;
  }
  CHECK(kl / 10 == doctest::Approx(eval("run", "--test")["kl"].get<double>()).epsilon(1e-5));

  const Matrix again = model.reconstruct(images);
  CHECK(again.values == model.decode(latents.means.values).values);
  CHECK(again.columns == 784);
  CHECK(std::ranges::all_of(again.values, [](float x) { return x > 0 && x < 1; }));
  CHECK(model.encode(std::span(images).subspan(3 * 784, 784)).means.values ==
        std::vector<float>(latents.means.row(3).begin(), latents.means.row(3).end()));

  must_train("vae", "plain", "model.sigma=none model.beta=1");
  CHECK(model.is_variational());
  CHECK(!Model(path("plain")).is_variational());
  const Latents plain = Model(path("plain")).encode(images);
  CHECK(plain.means.rows == 10);
  CHECK(plain.log_variances.rows == 0);
}

TEST_CASE_FIXTURE(RunFixture, "model: gives the classes and forecasts of `tapestry sample`") {
  const Array images = clothes(10, SyntheticSplit::validation);
  for (const auto& [config, kind] :
       {std::pair{"clothes-vit", "transformer"}, {"lenet", "convolutional"}}) {
    CAPTURE(config);
    train_small(*this, config, "image-classification", {}, kind);
    const std::string path = this->path(config);
    const Model model(path);
    const Matrix shares = model.classify(images.values<float>());
    CHECK(shares.rows == 10);
    CHECK(shares.columns == 10);
    const auto lines = lines_of(said({"sample", path, "--count", "10"}));
    for (std::int64_t i = 0; i < 10; ++i) {
      const auto row = shares.row(i);
      CHECK(std::accumulate(row.begin(), row.end(), 0.0) == doctest::Approx(1).epsilon(1e-6));
      const auto best = std::ranges::max_element(row) - row.begin();
      CHECK(lines[i].starts_with(
          fmt::format("image {}: {} {:.2f} ", i, model.class_names()[best], row[best])));
    }
  }

  train_small(*this, "waves", "forecast");
  const std::string waves = this->path("waves");
  const Model forecaster(waves);
  CHECK(forecaster.context() == 12);
  CHECK(forecaster.horizon() == 3);
  CHECK(forecaster.series().size() == 3);
  CHECK(forecaster.targets() == forecaster.series());
  said({"sample", waves, "--out", this->path("next.csv")});
  const auto table = cells_of(read("next.csv"));
  std::vector<float> window;
  for (std::size_t row = 1; row <= 12; ++row)
    for (std::size_t m = 0; m < 3; ++m) window.push_back(std::stof(table[row][1 + 2 * m]));
  const Matrix next = forecaster.forecast(window);
  REQUIRE(next.rows == 3);
  REQUIRE(next.columns == 3);
  for (std::size_t step = 0; step < 3; ++step)
    for (std::size_t m = 0; m < 3; ++m)
      CHECK(next.row(step)[m] ==
            doctest::Approx(std::stod(table[13 + step][2 + 2 * m])).epsilon(1e-4));
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: model: NaN, infinity and another scale gave results without a word") {
  must_train("vae", "vae");
  train_small(*this, "waves", "forecast");
  train_small(*this, "friedman", "table");
  const Model vae(path("vae")), waves(path("waves")), table(path("friedman"));
  const std::vector<float> image(784, 0.5), code(2), window(36, 0.25);
  const auto with = [](std::vector<float> values, std::size_t place, float value) {
    values.at(place) = value;
    return values;
  };
  for (const float wrong : {NAN, INFINITY, 255.0F, -1.0F}) {
    CAPTURE(wrong);
    const std::vector<float> images = with(std::vector<float>(2 * 784, 0.5), 1000, wrong);
    check_says(misuse_of([&] { vae.encode(images); }), {"encode: image 1 (from 0)", "0 to 1"});
    check_says(misuse_of([&] { vae.reconstruct(images); }), {"reconstruct: image 1 (from 0)"});
  }
  for (const float wrong : {NAN, INFINITY})
    check_says(misuse_of([&] { vae.decode(with(code, 1, wrong)); }),
               {"decode: point 0 (from 0)", "expected a finite number"});
  check_says(misuse_of([&] { waves.forecast(with(window, 7, -INFINITY)); }),
             {"forecast: row 2 (from 0), series " + waves.series()[1] + ": -inf"});
  const auto is_number = [](float value) { return !std::isnan(value); };
  CHECK(std::ranges::all_of(waves.forecast(with(window, 7, NAN)).values, is_number));
  std::vector<float> without = window;
  for (std::size_t at = 1; at < without.size(); at += 3) without[at] = NAN;
  const Matrix forecast = waves.forecast(without);
  for (std::size_t i = 0; i < forecast.values.size(); ++i)
    CHECK(is_number(forecast.values[i]) == (i % 3 != 1));
  const std::vector<Strings> rows{Strings(10, "0.5"), {"0.5"}};
  check_says(misuse_of([&] { table.predict(rows); }), {"predict: example 1 (from 0) has 1 cells"});
}

TEST_CASE_FIXTURE(RunFixture, "model: four threads at once get the same bits as alone") {
  must_train("text", "words", "model.width=32");
  must_train("text", "recurrent", "model.kind=recurrent");
  must_train("text", "rounded", "train.precision=bf16");
  must_train("vae", "vae");
  std::vector<Model> writers;
  for (const char* run : {"words", "recurrent", "rounded"}) writers.emplace_back(path(run));
  const Model vae(path("vae"));
  const std::vector<float> images = some_images(64);
  struct Results {
    Strings texts{};
    std::vector<float> logits{}, means{}, pictures{};
    bool operator==(const Results&) const = default;
  };
  const auto results = [&](std::uint64_t seed) {
    Results all;
    for (const Model& model : writers) {
      all.texts.push_back(model.generate("green", {.tokens = 60, .seed = seed}));
      const Matrix logits = model.logits(model.tokenize("bottles"));
      all.logits.insert(all.logits.end(), logits.values.begin(), logits.values.end());
    }
    all.means = vae.encode(images).means.values;
    all.pictures = vae.reconstruct(images).values;
    return all;
  };
  std::vector<Results> alone, together(4);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) alone.push_back(results(seed));
  std::vector<std::jthread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([&, seed] {
      for (int i = 0; i < 3; ++i) together[seed - 1] = results(seed);
    });
  threads.clear();
  CHECK(together == alone);
  CHECK(alone[0].texts != alone[1].texts);
}

TEST_CASE_FIXTURE(RunFixture,
                  "model: loading takes the memory of its parameters, without the optimizer's" *
                      not_sanitized("memory is not recycled there")) {
  must_train("text", "run", "model.width=128 train.steps=2");
  const std::string path = this->path("run");
  const std::int64_t bytes = 4 * count_parameters(load_checkpoint_metadata(best("run")));
  const auto before = static_cast<std::int64_t>(memory_use().bytes_in_use);
  reset_peak_memory();
  const Model model(path);
  const auto most = static_cast<std::int64_t>(memory_use().peak_bytes_in_use) - before;
  CHECK(most >= bytes);
  CHECK(most < bytes * 5 / 4);
}

TEST_CASE_FIXTURE(RunFixture, "model: wrong arguments are refused with their name") {
  must_train("text", "words");
  must_train("vae", "vae");
  must_train("toy", "toy");
  CHECK_ERROR(Model(path("nowhere")), "no such run");
  CHECK_ERROR(Model(path("toy")), "its task is toy-sequence; expected one of captioning, forecast,",
              "vae");
  const std::string cut = write("cut.safetensors", read_bytes(best("words")).substr(0, 20000));
  CHECK_ERROR(Model(cut), "the file is truncated");
  Safetensors file = read_safetensors(best("words"));
  file.tensors.front().second = file.tensors.front().second.clone();
  file.tensors.front().second.mutable_values<float>()[0] += 1;
  write_safetensors(cut, file);
  CHECK_ERROR(Model(cut), file.tensors.front().first, "is damaged");

  const Model words(path("words")), vae(path("vae"));
  const std::vector<float> numbers(785);
  const Tokens none, nine(9), strange = {1, 99};
  CHECK_ERROR(words.generate("green ß"), "ß");
  const std::vector<std::pair<std::function<void()>, Strings>> refused = {
      {[&] { words.encode(numbers); }, {"encode: the model is of the task language-model;", "vae"}},
      {[&] { words.forecast(numbers); }, {"forecast:", "expected forecast"}},
      {[&] { words.translate("a"); }, {"translate:", "expected translation"}},
      {[&] { words.height(); }, {"height:", "expected vae or image-classification"}},
      {[&] { vae.generate(""); }, {"generate: the model is of the task vae"}},
      {[&] { vae.context(); }, {"context:", "language-model or forecast"}},
      {[&] { vae.classify(numbers); }, {"classify:", "expected image-classification"}},
      {[&] { vae.encode(numbers); }, {"encode: 785 numbers; expected 784 for each of", "28 x 28"}},
      {[&] { vae.encode({}); }, {"encode: 0 numbers"}},
      {[&] { vae.decode(numbers); }, {"decode: 785 numbers; expected 2 for each of"}},
      {[&] { words.logits(none); }, {"logits: no tokens; expected at least one"}},
      {[&] { words.logits(nine); }, {"logits: 9 tokens; expected at most 8"}},
      {[&] { words.logits(strange); }, {"logits: token 99; expected 0 to"}},
      {[&] { words.detokenize(strange); }, {"detokenize: token 99"}},
      {[&] { words.generate(strange); }, {"generate: token 99"}},
      {[&] { words.generate(none); }, {"generate: no tokens"}},
      {[&] { words.generate("", {.tokens = -1}); }, {"generate: tokens = -1; expected 0 to"}},
      {[&] { words.generate("", {.temperature = NAN}); }, {"temperature = nan"}},
      {[&] { words.generate("", {.top_k = -2}); }, {"top_k = -2"}},
      {[&] { words.generate("", {.top_p = 1.5}); }, {"top_p = 1.5; expected 0 to 1"}},
      {[&] { words.generate("", {.min_p = -1}); }, {"min_p = -1"}},
      {[&] { words.generate("", {.repetition_penalty = 0}); }, {"repetition_penalty = 0"}}};
  for (const auto& [call, parts] : refused) check_says(misuse_of(call), parts);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
