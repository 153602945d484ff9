#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/series/series.hpp"
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

// 20 months of days: twelve, four and four of them.
std::string station() {
  std::string text = "date,load,oil\n";
  for (std::int64_t day = 0; day < 600; ++day)
    text += fmt::format("{},{},{}\n", time_text(day * 86400), day % 7, 20 - day % 30);
  return text;
}

// Lines of a text and a label.
std::string meals(int count) {
  std::string lines = "text\tlabel\n";
  for (int i = 0; i < count; ++i)
    lines += fmt::format("meal {} was {}\t{}\n", i, i % 2 ? "good" : "bad", i % 2 ? "up" : "down");
  return lines;
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

TEST_SUITE_BEGIN("command line");

// By "task/kind", or by "task" alone.
std::map<std::string, SmallData> small_data() {
  std::string names;
  for (int i = 0; i < 100; ++i) names += fmt::format("n{}\n", i);
  const SmallData images{.few = {"data.training_images=200", "data.test_images=20"}},
      drawn{.few = {"data.held_back=20"}}, sequences{.few = {"data.held_back=50"}};
  return {
      {"vae", images},
      {"image-classification", images},
      {"text-classification/reports", {.few = {"data.examples=200", "data.held_back=20"}}},
      {"text-classification/text",
       {.files = {{"train.tsv", meals(40)}, {"test.tsv", meals(8)}},
        .data = {"data.path=."},
        .few = {"data.vocabulary=270", "train.batch_size=4"}}},
      {"toy-sequence", sequences},
      {"recall", sequences},
      {"graph/drawn", drawn},
      {"translation/dates", drawn},
      {"language-model/text",
       {.files = {{"story.txt", story(400)}},
        .data = {"data.path=story.txt"},
        .sample = {"--tokens", "10"}}},
      {"language-model/names", {.files = {{"names.txt", names}}, .data = {"data.path=names.txt"}}},
      {"forecast/csv", {.files = {{"station.csv", station()}}, .data = {"data.path=station.csv"}}},
      {"translation/text",
       {.files = {{"train.de", story()},
                  {"train.en", story()},
                  {"val.de", story()},
                  {"val.en", story()},
                  {"test.de", story()},
                  {"test.en", story()}},
        .data = {"data.path=."},
        .few = {"data.vocabulary=300", "train.batch_size=4"},
        .sample = {"--prompt", "1 green bottle"}}},
      {"graph/csv",
       {.files = {{"nodes.csv",
                   "id,size,color,label\n1,2,red,a\n2,5,blue,b\n3,1,red,a\n4,7,blue,b\n5,1,red,a\n"
                   "6,6,blue,b\n7,3,red,\n"},
                  {"edges.csv", "source,target\n1,3\n2,4\n5,1\n6,2\n7,5\n"}},
        .data = {"data.path=."}}},
      {"graph/citations",
       {.files = {{"cora.content", "a 1 0 x\nb 0 1 y\nc 1 0 x\nd 0 1 y\n"},
                  {"cora.cites", "a c\nb d\n"}},
        .data = {"data.path=.", "data.training_nodes=2", "data.validation_nodes=1",
                 "data.test_nodes=1"}}},
  };
}

}  // namespace

SmallData small_data_of(const std::string& task, const std::string& kind) {
  static const std::map<std::string, SmallData> known = small_data();
  const auto found = known.find(task + "/" + kind), of_task = known.find(task);
  if (found != known.end()) return found->second;
  return of_task == known.end() ? SmallData() : of_task->second;
}

bool is_preset(const Config& config) { return config[key::expected_metric].empty(); }

Strings small_preset(const Config& config) {
  if (!is_preset(config)) return {};
  const std::int64_t heads = std::get<std::int64_t>(config.value("model.heads"));
  return {"model.layers=2",        fmt::format("model.width={}", 4 * heads),
          "model.feed_forward=16", "model.context=32",
          "train.batch_size=4",    "train.micro_batches=1"};
}

namespace {

// A run of a shipped config at its own size, with small data.
class SmokeRun {
 public:
  SmokeRun(const std::string& name, const Config& config)
      : name_(name),
        config_(config),
        fixture_(small_data_of(setting("task"), setting("data.kind"))) {
    for (const auto& [file, content] : fixture_.files) folder_.write(file, content);
  }

  // Trains three steps, and two more, and evaluates the result.
  void train() const {
    const Words all = "train.eval_every=2 train.checkpoint_every=1 train.log_every=1" +
                      Words(small_preset(config_)) + fixture_.few;
    Words more = all + "train.steps=5 --resume";
    if (setting("optim.schedule") != "constant") more.push_back("optim.decay_steps=5");
    run(Words("train {} --out run", name_), all + "train.steps=3");
    const Json planned =
        Json::parse(run(Words("plan {} --seconds 0 --json", name_), all + "train.steps=3"));
    CHECK(planned["bytes"]["tensors"].get<double>() ==
          doctest::Approx(tensor_bytes(folder_.path("run"))).epsilon(0.1));
    const std::string said = run(Words("train {} --out run", name_), more);
    check_says(said, {"from step 3", "done after", "loss"});
    CHECK(!contains(said, " reached, "));  // the expected value belongs to more steps
    const auto metrics = lines_of(folder_.read("run/metrics.jsonl"));
    const bool tests = Json::parse(metrics.back())["split"] == "test";
    CHECK(tests == contains(said, "test_loss"));
    CHECK(metrics.size() == 5 + 4 + tests);  // evaluated at 2, 3, 4 and 5
    double lowest = INFINITY;                // of the evaluations, as metrics.jsonl has them
    for (const std::string& line : metrics)
      if (const Json recorded = Json::parse(line); recorded["split"] == "val")
        lowest = std::min(lowest, recorded["loss"].get<double>());
    CHECK(Json::parse(run("eval run --json"))["loss"] == lowest);
    CHECK(load_checkpoint(folder_.path("run/checkpoint.safetensors")).state.step == 5);
    CHECK(parse_config(folder_.read("run/config.toml"), "config", {})[key::name] == name_);
  }

  // Repeats steps, writes a report and samples, and checks the gradients of a smaller model.
  void use() const {
    check_says(run("verify run --from checkpoint"), {"bitwise identical: step 5 of 5"});
    check_says(run("replay run --step 2"), {": step 2, trained again from step 0"});
    run("report run");
    const std::string page = folder_.read("run/report.html");
    CHECK_MESSAGE(page.size() < 5'000'000, page.size());
    CHECK(contains(page, "data-show=\"curves\""));
    // A figure of the model; a convolutional network has no attention.
    CHECK(contains(page, setting("model.kind") == "convolutional" ? "Confusion matrix"
                                                                  : "data-of=\"data-2\""));
    sample();
    check_says(run(Words("gradcheck " + name_),
                   small(setting("task"), setting("model.kind")) + small_preset(config_)),
               {"all gradients agree"});
  }

 private:
  std::string setting(const std::string& key) const { return text_setting(config_, key); }

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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
