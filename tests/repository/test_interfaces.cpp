#include <doctest/doctest.h>

#include "autograd/engine.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/model.hpp"

// Compares the C functions and the Python module of an installed Tapestry with Model, bit for bit.
namespace tapestry {
namespace {

// Returns a variable that makes glibc choose the engine of this process for other programs.
std::string engine_of_this_process() {
  const std::string level = instruction_level();
  return std::string("GLIBC_TUNABLES=") + (level == "x86-64-v3" ? "glibc.cpu.hwcaps=-AVX512F"
                                           : level == "x86-64-v2"
                                               ? "glibc.cpu.hwcaps=-AVX512F,-AVX2"
                                               : "");
}

// Returns a Python that has NumPy; "" if there is none.
std::string python_with_numpy() {
  for (const std::string python : {"/usr/bin/python3", "python3"}) try {
      if (run_program({python, "-c", "import numpy"}).status == 0) return python;
    } catch (const std::invalid_argument&) {
    }
  return "";
}

// The installed tree, C programs that are built on it, and small models.
class Interfaces : public RunFixture {
 public:
  Interfaces() {
    must(run_program(Words("cmake --install {} --prefix {}", paths::build, prefix)));
    must_train("text", "words");
  }

  void train_small(const std::string& config, const std::string& task,
                   const std::string& kind = "") const {
    must_run(Words("train {} --quiet --out {} train.steps=20", config, path(config)) +
             small(task, kind));
  }

  // Builds the programs of tests/example_c, as C99 without warnings.
  void build_c() const {
    must(run_program({"cmake", "-S", source_path("tests/example_c"), "-B", build, "-G", "Ninja",
                      "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS=-Werror",
                      "-DCMAKE_PREFIX_PATH=" + prefix}));
    must(run_program(Words("cmake --build {}", build)));
  }

  // Returns what a program prints when it finds the module and the engine.
  std::string printed(const Words& program, const Words& arguments) const {
    return must(run_program(Words{"env", engine_of_this_process(), "PYTHONPATH=" + modules} +
                            program + arguments))
        .out;
  }

  const TemporaryFolder tree{fs::temp_directory_path().string()};
  const std::string prefix = tree.path("prefix"), build = tree.path("build"),
                    modules = prefix + "/lib/python3/dist-packages";
};

template <class Values>
std::string line(const std::string& what, const Values& values) {
  std::string text = what + ":";
  for (const auto& value : values)
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, float>)
      text += fmt::format(" {:.9g}", value);
    else
      text += fmt::format(" {}", value);
  return text + "\n";
}

// The lines of at most three examples.
class Examples {
 public:
  bool take(const PredictedExample& one) {
    text += fmt::format("{}: {} -> {}{}\n", one.place, fmt::join(one.cells, " "),
                        fmt::join(one.prediction, " "), one.flaw);
    return ++count_ < 3;
  }
  std::string text;

 private:
  int count_ = 0;
};

std::vector<float> square(const Model& model) {
  const auto height = model.height(), width = model.width();
  std::vector<float> image(model.channels() * height * width);
  for (auto y = height / 4; y < height * 3 / 4; ++y)
    for (auto x = width / 4; x < width * 3 / 4; ++x) image[y * width + x] = 1;
  return image;
}

std::string language_lines(const Model& model, const std::string& text) {
  const GenerationOptions options{.tokens = 20, .temperature = 0.8};
  const Tokens tokens = model.tokenize(text);
  return line("tokens", tokens) + fmt::format("text: {}, {} bytes\n", text, text.size()) +
         line("logits", model.logits(tokens).values) +
         line("next", model.generate(tokens, options)) +
         fmt::format("generated: {}\n", model.generate(text, options));
}

std::string image_lines(const Model& model, const std::string& picture) {
  const std::vector<float> image = square(model);
  if (model.task() == "image-classification")
    return line("classes", model.class_names()) +
           line("probabilities", model.classify(image).values) +
           line("picture", model.read_pictures({{picture}}).values);
  const Latents codes = model.encode(image);
  return line("means", codes.means.values) + line("log variances", codes.log_variances.values) +
         line("decoded", model.decode(codes.means.values).values) +
         line("reconstructed", model.reconstruct(image).values);
}

std::string text_lines(const Model& model, const std::string& text) {
  Examples examples;
  for (const PredictedExample& one : model.predict({{{text}, {text}}})) examples.take(one);
  const Strings texts = {text, text};
  return line("probabilities", model.classify_texts(texts).values) + examples.text;
}

std::string forecast_lines(const Model& model) {
  std::vector<float> window(model.context() * std::ssize(model.series()));
  for (std::size_t i = 0; i < window.size(); ++i) window[i] = 0.25F * static_cast<float>(i % 7);
  CHECK(model.forecast(window).rows == model.horizon());
  return line("series", model.series()) + line("targets", model.targets()) +
         line("forecast", model.forecast(window).values);
}

// Returns what example_c/numbers.c and example_python/show_numbers.py print.
std::string numbers_of(const std::string& run, const std::string& text, const std::string& data) {
  const Model model(run);
  std::string lines =
      line("columns", model.prediction_columns()) + line("fields", model.example_fields());
  if (model.task() == "language-model") lines += language_lines(model, text);
  if (model.task() == "vae" || model.task() == "image-classification")
    lines += image_lines(model, text);
  if (model.task() == "text-classification") lines += text_lines(model, text);
  if (model.task() == "forecast") lines += forecast_lines(model);
  if (model.task() == "translation")
    lines += fmt::format("translation: {}\n", model.translate(text));
  if (data.empty()) return lines;
  Examples examples;
  model.predict(data, [&](const PredictedExample& one) { return examples.take(one); });
  return lines + examples.text;
}

TEST_SUITE_BEGIN("interfaces" * not_sanitized("other programs are built without"));

TEST_CASE_FIXTURE(Interfaces,
                  "interfaces: C99 and Python compute the bits of C++, for every task") {
  must_train("vae", "vae");
  must_train("vae", "plain", "model.sigma=none model.beta=1");
  train_small("lenet", "image-classification", "convolutional");
  train_small("match-reports", "text-classification");
  train_small("dates", "translation");
  train_small("waves", "forecast");
  train_small("friedman", "table");
  const std::string picture =
      write("picture.png", png(9, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(81, 99)));
  build_c();
  const std::string python = python_with_numpy();
  if (python.empty()) left_out("Python with NumPy is not installed");
  std::string table = fmt::format("{}\n", fmt::join(Model(path("friedman")).example_fields(), ","));
  for (int row = 0; row < 5; ++row) table += "0.5,0.25,0.1,0.9,0.3,0.7,0.2,0.8,0.4,0.6\n";
  write("rows.csv", table + "x\n");
  const std::vector<Strings> all = {{"words", "3 green"},
                                    {"vae", ""},
                                    {"plain", ""},
                                    {"lenet", picture},
                                    {"match-reports", "the reds beat the blues"},
                                    {"dates", "the 23rd of July 1903"},
                                    {"waves", ""},
                                    {"friedman", "", path("rows.csv")}};
  for (const Strings& one : all) {
    const std::string run = path(one[0]), data = one.size() > 2 ? one[2] : "";
    CAPTURE(run);
    const Words arguments = Words{run, one[1]} + (data.empty() ? Words() : Words{data});
    const std::string expected = numbers_of(run, one[1], data);
    CHECK(printed({build + "/numbers"}, arguments) == expected);
    if (!python.empty())
      CHECK(printed({python, source_path("tests/example_python/show_numbers.py")}, arguments) ==
            expected);
  }
}

TEST_CASE_FIXTURE(Interfaces, "interfaces: the C program of the guide trains and generates") {
  build_c();
  const std::string trained =
      printed({build + "/main"}, {path("text.toml"), path("c"), "green b", "train.steps=40"});
  CHECK(run_difference(path("words"), path("c")) == "");
  CHECK(trained == read("c/metrics.jsonl") +
                       Model(path("c")).generate("green b", {.tokens = 60, .temperature = 0.8}));
  check_fails(run_program({build + "/main", path("nowhere"), path("none"), ""}), {"nowhere"}, 2);
}

TEST_CASE_FIXTURE(Interfaces,
                  "interfaces: the Python module checks arrays, passes exceptions and trains") {
  const std::string python = python_with_numpy();
  if (python.empty()) return left_out("Python with NumPy is not installed");
  must_train("vae", "vae");
  must_train("vae", "plain", "model.sigma=none model.beta=1");
  train_small("waves", "forecast");
  train_small("friedman", "table");
  setenv("TAPESTRY_RUNS", path().c_str(), 1);
  printed({python, source_path("tests/example_python/test_tapestry.py")}, {});
  unsetenv("TAPESTRY_RUNS");
  CHECK(run_difference(path("words"), path("python")) == "");
}

TEST_CASE_FIXTURE(Interfaces, "interfaces: the Python session of the guide runs") {
  const std::string python = python_with_numpy();
  if (python.empty()) return left_out("Python with NumPy is not installed");
  const Finished session = must(run_program(
      {"env", "PYTHONPATH=" + modules, python, source_path("tests/example_python/session.py")},
      {.folder = path()}));
  check_says(session.out, {"step 300: validation loss 0.", "best step: 300",
                           "the cat sat on the mat, and", "after 'the d': o",
                           "['load', 'hour'] (8, 2)", "codes (400, 3) image (1, 1, 28, 28)"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
