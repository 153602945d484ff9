#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/small_data.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

TEST_SUITE_BEGIN("command line");

// A run of a shipped config at its own size, with small data.
class SmokeRun {
 public:
  SmokeRun(const std::string& name, const Config& config)
      : name_(name),
        config_(config),
        fixture_(small_data_of(setting("task"), setting("data.kind"))) {
    for (const auto& [file, content] : fixture_.files) folder_.write(file, content);
  }

  // Writes the data into all/NAME, and into its file `words` the settings of ten steps, one a line.
  void write(const fs::path& all) const {
    fs::copy(folder_.path(), all / name_);
    std::ofstream words(all / name_ / "words");
    for (const std::string& setting :
         Words("train.steps=10") + small_preset(config_) + fixture_.few + fixture_.data)
      words << setting << '\n';
  }

  // Trains three steps.
  void train() const {
    const std::string said = run(Words("train {} --out run", name_), settings(3));
    check_says(said, {"done after", "loss"});
    CHECK(!contains(said, " reached, "));  // the expected value belongs to more steps
    check_metrics(said, 3 + 2);            // evaluated at 2 and 3
    const Json planned = Json::parse(run(Words("plan {} --seconds 0 --json", name_), settings(3)));
    const double held = tensor_bytes(folder_.path("run"));
    CHECK_MESSAGE(is_planned(held, planned), held, " held, planned ", planned["bytes"].dump());
    CHECK(parse_config(folder_.read("run/config.toml"), "config", {})[key::name] == name_);
  }

  // Trains another step, evaluates the model, repeats steps, writes a report and samples, and
  // checks the gradients of a smaller model.
  void use() const {
    Words more = settings(4) + "--resume";
    if (setting("optim.schedule") != "constant") more.push_back("optim.decay_steps=4");
    const std::string said = run(Words("train {} --out run", name_), more);
    check_says(said, {"from step 3"});
    double lowest = INFINITY;
    for (const Json& line : check_metrics(said, 4 + 3))
      if (line["split"] == "val") lowest = std::min(lowest, line["loss"].get<double>());
    CHECK(Json::parse(run("eval run --json"))["loss"] == lowest);
    CHECK(load_checkpoint(folder_.path("run/checkpoint.safetensors")).state.step == 4);
    check_says(run("verify run --from checkpoint"), {"bitwise identical: step 4 of 4"});
    check_says(run("replay run --step 2"), {": step 2, trained again from step 0"});
    run("report run");
    const std::string page = folder_.read("run/report.html");
    CHECK_MESSAGE(page.size() < 5'000'000, page.size());
    CHECK(contains(page, "data-show=\"curves\""));
    // A figure of the model; a convolutional network has no attention, a table's has tables.
    CHECK(contains(page, setting("task") == "table"                   ? "Permutation importance"
                         : setting("task") == "captioning"            ? "<figcaption>image "
                         : setting("task") == "in-context-regression" ? "a step of gradient descent"
                         : setting("model.kind") == "convolutional"   ? "Confusion matrix"
                                                                      : "data-of=\"data-2\""));
    sample();
    check_says(run(Words("gradcheck " + name_),
                   small(setting("task"), setting("model.kind")) + small_preset(config_)),
               {"all gradients agree"});
  }

 private:
  std::string setting(const std::string& key) const { return text_setting(config_, key); }

  Words settings(int steps) const {
    return Words("train.eval_every=2 train.checkpoint_every=1 train.log_every=1 train.steps={}",
                 steps) +
           Words(small_preset(config_)) + fixture_.few;
  }

  // Returns the lines of metrics: `count`, and one of the test split if the training printed it.
  std::vector<Json> check_metrics(const std::string& said, std::size_t count) const {
    std::vector<Json> lines;
    for (const std::string& line : lines_of(folder_.read("run/metrics.jsonl")))
      lines.push_back(Json::parse(line));
    const bool is_tested = lines.back()["split"] == "test";
    CHECK(is_tested == contains(said, "test_loss"));
    CHECK(lines.size() == count + is_tested);
    return lines;
  }

  std::string run(const Words& words, const Words& more = {}) const {
    const bool with_data = words.front() != "sample" && words.front() != "report";
    return must_run(words + more + (with_data ? fixture_.data : Words()),
                    {.folder = folder_.path()});
  }

  void sample() const {
    const std::string task = setting("task");
    if (task == "vae") {
      run("sample run --count 6 --out six.png");
      const std::string png = folder_.read("six.png");
      CHECK(png.starts_with("\x89PNG\r\n\x1a\n"));
      CHECK(png.substr(12, 4) == "IHDR");
      CHECK(big_endian(png, 16) == 3 * 57 + 1);  // three columns of 56 pixels and a line each
      CHECK(big_endian(png, 20) == 2 * 57 + 1);
      run("sample run");
      CHECK(big_endian(folder_.read("run/samples.png"), 16) == 8 * 57 + 1);
      for (const std::string kind : {"prior", "reconstructions", "around", "interpolation"})
        CHECK(run("sample run --kind " + kind) == "run/" + kind + ".png\n");
      check_says(run("latent run"), {"run/latent.csv", "run/latent.png"});
      CHECK(lines_of(folder_.read("run/latent.csv")).size() == 1 + 240);
      return;
    }
    const std::string said = run("sample run", fixture_.sample);
    if (task == "forecast") {
      CHECK(said == "run/samples.csv\nrun/samples.png\nrun/samples.svg\n");
      return;
    }
    CHECK(said.ends_with('\n'));
    if (task == "toy-sequence" || task == "recall") {
      for (const std::string& line : lines_of(said))
        CHECK((line.starts_with("    ") || line.ends_with(" right") ||
               contains(line, " wrong, expected ")));
    } else if (task != "translation") {  // which may be empty so early
      CHECK(said.size() > 10);
    }
  }

  std::string name_;
  Config config_;
  SmallData fixture_;
  TemporaryFolder folder_;
};

}  // namespace

// The commands that use a run are tried with one config of each kind of data and model.
void smoke_test(const std::function<bool(const std::string& task)>& is_wanted) {
  std::set<Strings> used;
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    const Config config = parse_config(text, name, {});
    Strings kind;
    for (const char* key : {"task", "data.kind", "model.kind", "model.attention", "model.memory"})
      kind.push_back(text_setting(config, key));
    if (!is_wanted(kind.front())) continue;
    const SmokeRun run(name, config);
    run.train();
    if (used.insert(kind).second) run.use();
  }
}

namespace {

TEST_CASE("smoke: shipped configs of images, series, graphs and toys train, resume and sample") {
  smoke_test([](const std::string& task) { return !is_of_language(task); });
}

// For .ci/bits, into $TAPESTRY_BITS.
TEST_CASE("smoke: small data of each shipped config are written for other builds" *
          doctest::skip()) {
  const TemporaryFolder otherwise;
  const char* folder = std::getenv("TAPESTRY_BITS");
  const fs::path all = folder ? folder : otherwise.path();
  for (const auto& [name, text] : shipped_configs()) {
    SmokeRun(name, parse_config(text, name, {})).write(all);
    CHECK(fs::file_size(all / name / "words") > 0);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
