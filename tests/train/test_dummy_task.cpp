#include <doctest/doctest.h>

#include <set>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "layers/linear.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/curve.hpp"

// This file adds a task. All commands must know it without an edit elsewhere.
namespace tapestry {
namespace {

const Key<double> radius_key{"data.radius", 1, "of the disc", {.low = 0.1, .high = 1.4}};
const Key<std::int64_t> hidden_key{"model.hidden", 16, "hidden units", {.low = 1, .high = 1024}};

// Of the task's author, for tests: "field", "name", "loss", "throw", "count -1" or "average NAME".
std::string mistake;

// Returns "NAME" of a mistake "average NAME"; "" of others.
std::string mistaken(const std::string& kind) {
  return mistake.starts_with(kind + ' ') ? mistake.substr(kind.size() + 1) : "";
}

// Points (2) in a square; the label is 1 within a disc at its center, 0 outside.
class DiscDataset final : public Dataset {
 public:
  DiscDataset(std::int64_t count, double radius, std::uint64_t split) {
    Random random(5, Stream::data, split);
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = 2.5 * random.uniform() - 1.25, y = 2.5 * random.uniform() - 1.25;
      points_.insert(points_.end(), {static_cast<float>(x), static_cast<float>(y)});
      labels_.push_back(x * x + y * y < radius * radius);
    }
  }

  std::int64_t size() const override { return std::ssize(labels_); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<float> points;
    std::vector<std::int32_t> labels;
    for (const std::int64_t example : examples) {
      points.insert(points.end(), {points_[2 * example], points_[2 * example + 1]});
      labels.push_back(labels_[example]);
    }
    const auto B = std::ssize(labels);
    return {
        .inputs = Array::of(points, {B, 2}),
        .targets = Array::of(labels, {B}),
        .count = mistaken("count").empty() ? static_cast<double>(B) : std::stod(mistaken("count"))};
  }

 private:
  std::vector<float> points_;
  std::vector<std::int32_t> labels_;
};

class DiscNetwork final : public Module {
 public:
  DiscNetwork(std::int64_t width, Random& init) : hidden_(2, width, init), out_(width, 2, init) {}

  Tensor forward(const Tensor& points) const {  // (B, 2) -> (B, 2)
    const Scope scope(path());
    return out_.forward(relu(hidden_.forward(points)));
  }
  void fields(FieldVisitor& visit) override {
    visit("hidden", hidden_);
    if (mistake != "field") visit(mistake == "name" ? "hidden" : "out", out_);
  }

 private:
  Linear hidden_, out_;
};

class DiscTask final : public Task {
 public:
  explicit DiscTask(const TaskSetup& setup)
      : training_(400, setup.config[radius_key], 0),
        validation_(100, setup.config[radius_key], 1),
        test_(100, setup.config[radius_key], 2),
        model_([&] {
          Random init(seed_of(setup.config), Stream::init);
          return DiscNetwork(setup.config[hidden_key], init);
        }()) {}

  DiscNetwork& model() override { return model_; }
  const DiscDataset& training_data() override { return training_; }
  const DiscDataset& validation_data() override { return validation_; }
  const DiscDataset* test_data() override { return &test_; }

  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor logits = model_.forward(batch.inputs);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    if (mistake == "throw") throw 42;
    Loss loss{total,
              {{mistake == "loss" ? "nats" : "loss", {total.item(), batch.count}},
               {"hit_rate", hits(logits, batch.targets)}}};
    if (const std::string name = mistaken("average"); !name.empty()) loss.averages[name] = {3, 1};
    return loss;
  }

  bool is_inside(const Array& point) const {
    const Array logits = model_.forward(point).value();
    return logits.values<float>()[1] > logits.values<float>()[0];
  }

 private:
  static MetricSum hits(const Tensor& logits, const Array& targets) {
    MetricSum hits;
    const Array scores = logits.value().to(DType::float32);
    for (std::int64_t i = 0; i < targets.size(); ++i) {
      const bool is_inside = scores.values<float>()[2 * i + 1] > scores.values<float>()[2 * i];
      hits += {is_inside == (targets.values<std::int32_t>()[i] == 1) ? 1.0 : 0.0, 1};
    }
    return hits;
  }

  DiscDataset training_, validation_, test_;
  DiscNetwork model_;
};

const Key<std::int64_t> points_option{"points", 2, "how many", {.low = 1, .high = 100}};

Sample disc_sample(DiscTask& task, const Options& options) {
  Sample sample;
  for (std::int64_t i = 0; i < options[points_option]; ++i) {
    const Array point = task.validation_data().batch(std::vector{i}).inputs;
    sample.text += fmt::format("({:.2f}, {:.2f}) is {}\n", point.values<float>()[0],
                               point.values<float>()[1], task.is_inside(point) ? "in" : "out");
  }
  return sample;
}

ReportPanels disc_panels(DiscTask& task) {
  TablePanel table{.title = "The disc along an axis", .rows = {{"x", "predicted"}}};
  for (const float x : {-1.2F, 0.0F, 1.2F})
    table.rows.push_back(
        {fmt::format("{}", x), task.is_inside(Array::of<float>({x, 0}, {1, 2})) ? "in" : "out"});
  return {table};
}

TaskSpec disc_spec() {
  using enum MetricInfo::Better;
  return {
      .name = "disc",
      .help = "points of a square, in a disc or not",
      .keys = {radius_key, hidden_key},
      .make = make_task_of<DiscTask>,
      .metrics = {{"loss", "nats", lower, "the negative log likelihood of the class"},
                  {"hit_rate", "", higher, "the share of points that are classified correctly"}},
      .samples = {{points_option}, &disc_sample},
      .panels = disc_panels};
}

const RegisterTask disc_registered(disc_spec);

const std::string disc_config =
    "task = \"disc\"\n[optim]\nlearning_rate = 0.02\n[train]\nsteps = 150\neval_every = 50\n";

// Runs a command, checks that it succeeds, and returns its output.
std::string must_run_here(const Words& words) { return must(run_here(words)).out; }

TEST_SUITE_BEGIN("dummy task");

TEST_CASE_FIXTURE(TemporaryFolder, "dummy task: all commands know a task that one file registers") {
  const std::string config = write("disc.toml", disc_config), run = path("run"),
                    wide = path("wide");
  check_says(must_run_here("config " + config), {"radius = 1", "hidden = 16"});
  check_says(must_run_here(Words("plan {} --seconds 0", config)), {"hidden", "out"});

  check_says(
      must_run_here(Words("train {} --out {} --seeds 3 train.tensorboard=true train.samples=true",
                          config, run)),
      {"test_hit_rate 0.9"});
  must_run_here(Words("train {} --out {} --seeds 3 --quiet model.hidden=1", config, wide));
  const std::string first = run + "/seed-1";
  bool has_events = false;
  for (const auto& file : fs::directory_iterator(first))
    if (const std::string bytes = read_bytes(file.path());
        file.path().filename().string().starts_with("events"))
      has_events = contains(bytes, "hit_rate/val") && contains(bytes, "hit_rate/test");
  CHECK(has_events);

  check_says(must_run_here(Words("eval {} --test", first)), {"hit_rate 0.9"});
  CHECK(Json::parse(must_run_here(Words("eval {} --json", first)))["hit_rate"] > 0.9);
  CHECK(lines_of(must_run_here(Words("sample {} --points 5", first))).size() == 5);
  check_says(must_run_here("sample " + first), {") is in\n"});
  check_says(must_run_here("verify " + first), {"bitwise identical"});
  check_says(must_run_here(Words("replay {} --step 50", first)), {"hit_rate"});

  must_run_here("report " + first);
  check_says(read_bytes(first + "/report.html"),
             {"the share of points that are classified correctly; higher is better",
              "The disc along an axis", ") is in", "test (best model)"});
  check_says(must_run_here(Words("compare {} {}", run, wide)),
             {"hit_rate", "significantly higher (worse)", "model.hidden"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "dummy task: the doctor finds its faults") {
  const std::string config = write("disc.toml", disc_config);
  const std::string sound = must_run_here("doctor " + config);
  CHECK(!contains(sound, "warn"));
  check_says(sound, {"of 100 test examples", "skip  targets", "ok    one batch", "ok    resume"});
  const Finished slow = run_here(Words("doctor {} optim.learning_rate=1e-8 --skip plan", config));
  CHECK(slow.status == 1);
  check_says(slow.out, {"FAIL  learning rate"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "dummy task: stops early, and samples are recorded") {
  const std::string config = write("disc.toml", disc_config), run = path("run");
  check_says(must_run_here(Words("train {} --out {} train.early_stopping=2 train.min_delta=10 "
                                 "train.samples=true train.eval_every=25",
                                 config, run)),
             {"ends after step 75"});
  check_says(read_bytes(run + "/samples.jsonl"), {") is "});
  must_run_here(Words("train {} --out {} --resume --quiet train.steps=200 train.early_stopping=0",
                      config, run));
  check_says(must_run_here(Words("watch {} --once", run)), {"200"});
}

TEST_CASE("bug: of two tasks with the same name the second was ignored without a message") {
  const auto other = [] {
    TaskSpec ring = disc_spec();
    ring.name = "ring";
    return ring;
  };
  CHECK(tasks_by_name({disc_spec, other}).size() == 2);
  CHECK_ERROR(tasks_by_name({disc_spec, other, disc_spec}), "task disc: registered by ", " and by ",
              "; give one of them another TaskSpec::name");
}

TEST_CASE_FIXTURE(
    TemporaryFolder,
    "bug: a field that fields() lacks stayed random, and without loss it was map::at") {
  const std::string config = write("disc.toml", disc_config);
  const auto with = [&](const std::string& fault, const Words& words) {
    const Restore<std::string> made(mistake, fault);
    return run_here(words);
  };
  const Words train("train {} --out {}", config, path("run"));
  check_fails(with("field", train),
              {"a variable of shape (", "is not a parameter of the model; name every field"});
  CHECK(!fs::exists(path("run")));
  check_fails(with("loss", train), {"Task::loss: the averages lack \"loss\""});
  const Finished doctor = with("loss", Words("doctor {}", config));
  CHECK(doctor.status != 0);
  check_says(doctor.out + doctor.err, {"Task::loss: the averages lack \"loss\""});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: wrong names, counts and exceptions of a task were found late") {
  const std::string config = write("disc.toml", disc_config);
  const auto trained = [&](const std::string& fault) {
    const Restore<std::string> made(mistake, fault);
    return run_here(Words("train {} --out {}", config, path("run")));
  };
  check_fails(trained("name"),
              {"task disc of ", ": two parameters are named hidden.weight; give each field"});
  for (const std::string name : {"step", "lr", "rows_per_s", "test_loss", "a_xxh3"})
    check_fails(trained("average " + name),
                {"Task::loss: an average is named \"" + name + "\", which metrics.jsonl uses"});
  for (const std::string count : {"-5", "nan", "inf"})
    check_fails(trained("count " + count),
                {"Dataset::batch: count is " + count + "; expected the number of loss terms"});
  CHECK(!fs::exists(path("run")));
  check_fails(trained("throw"), {"an exception that is not a std::exception was thrown"}, 1);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "dummy task: names of all other members of metrics are reserved") {
  const std::string config = write("disc.toml", disc_config), run = path("run");
  must_run_here(
      Words("train {} --out {} train.max_bad_steps=1 train.average_decay=0.9", config, run));
  std::set<std::string> names;
  for (const std::string& line : lines_of(read_bytes(run + "/metrics.jsonl"))) {
    const Json members = Json::parse(line);
    for (const auto& [name, value] : members.items()) names.insert(name);
  }
  CHECK(names.size() > 8);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(is_reserved_metric(name) == (name != "loss" && name != "hit_rate"));
  }
  for (const MetricInfo& metric : common_metrics())
    CHECK(is_reserved_metric(metric.name) == (metric.name != "loss"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: an expected metric that no task has was accepted") {
  const auto trained = [&](const std::string& metric) {
    write("disc.toml", disc_config + "[expected]\nmetric = \"" + metric + "\"\n");
    return run_here(
        Words("train {} --out {} --quiet train.steps=2", path("disc.toml"), path(metric)));
  };
  for (const std::string metric : {"loss", "test_loss", "hit_rate", "test_hit_rate"})
    must(trained(metric));
  for (const std::string metric : {"hit_rat", "test_test_loss", "Loss"})
    check_fails(trained(metric), {"expected.metric = \"" + metric +
                                  "\": expected one of loss, "
                                  "hit_rate, "});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: compare and watch needed the task of recorded runs") {
  const std::string config = write("disc.toml", disc_config), run = path("run"),
                    wide = path("wide"), page = run + "/report.html", other = path("other.html");
  must_run_here(Words("train {} --out {} --quiet", config, run));
  must_run_here(Words("train {} --out {} --quiet model.hidden=8", config, wide));
  must_run_here("report " + run);
  const std::string full = read_bytes(page);
  const std::string compared = must_run_here(Words("compare {} {}", run, wide)),
                    watched = must_run_here(Words("watch {} --once", run));
  const TaskSpec spec = task_registry().at("disc");
  task_registry().erase("disc");
  const Finished compare = run_here(Words("compare {} {}", run, wide)),
                 watch = run_here(Words("watch {} --once", run)), eval = run_here("eval " + run),
                 refused = run_here("report " + run),
                 poor = run_here(Words("report {} --out {}", run, other)),
                 again = run_here(Words("report {} --out {}", run, other));
  task_registry().emplace("disc", spec);
  CHECK(must(compare).out == compared);
  CHECK(must(watch).out == watched);
  check_fails(eval, {"task = \"disc\": expected one of "});
  check_fails(refused, {"report.html: already exists, and may show what a new page lacks"});
  CHECK(read_bytes(page) == full);
  check_says(must(poor).err, {"other.html: lacks a model: ", "task = \"disc\": expected one of "});
  check_says(read_bytes(other), {"hit_rate", "hidden = 16"});
  must(again);
}

TEST_SUITE_END();

// What a TaskSpec declares is checked when it is registered.

const Key<double> ratio_key{"data.ratio", 0.5, "share of a class", {.low = 0, .high = 1}};
const Key<std::string> kind_key{"model.kind", "deep", "kind", {.choices = {"deep", "wide"}}};
const Key<std::int64_t> count_option{"count", 3, "how many", {.low = 1}};

Sample no_sample(Task&, const Options&) { return {}; }

TaskSpec sound_spec() {
  return {.name = "ring-2",
          .help = "rings of points",
          .keys = {ratio_key, kind_key},
          .make = [](const TaskSetup&) { return std::unique_ptr<Task>(); },
          .metrics = {{.name = "hits", .meaning = "the share of hits"}},
          .samples = {{count_option}, &no_sample}};
}

// Returns the message for a sound TaskSpec with a change; "" if there is none.
std::string message_for(const std::function<void(TaskSpec&)>& change) {
  static TaskSpec changed;
  changed = sound_spec();
  change(changed);
  try {
    tasks_by_name({[] { return changed; }});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string with_key(const KeyInfo& key) {
  return message_for([&](TaskSpec& spec) { spec.keys.push_back(key); });
}

std::string with_metric(const MetricInfo& metric) {
  return message_for([&](TaskSpec& spec) { spec.metrics.push_back(metric); });
}

std::string with_option(const KeyInfo& option) {
  return message_for([&](TaskSpec& spec) { spec.samples = {{count_option, option}, &no_sample}; });
}

TEST_SUITE_BEGIN("task specs");

TEST_CASE("bug: a TaskSpec without a usable name, help or factory was accepted") {
  CHECK(message_for([](TaskSpec&) {}).empty());
  for (const std::string name : {"", "a b", "a.b", "a/b", "ö"})
    check_says(message_for([&](TaskSpec& spec) { spec.name = name; }),
               {"task ", "TaskSpec::name: expected letters, digits, '_' and '-'"});
  check_says(message_for([](TaskSpec& spec) { spec.help = ""; }),
             {"task ring-2 of ", "TaskSpec::help: is empty"});
  check_says(message_for([](TaskSpec& spec) { spec.make = nullptr; }), {"TaskSpec::make"});
}

TEST_CASE("bug: keys of a TaskSpec that no config can set, or that exist, were accepted") {
  for (const std::string name : {"", "ratio", "data.", "data.Ratio", "data.a ratio", "data.a.ratio",
                                 "data.2", "optim.ratio", ".ratio", "data.räte"})
    check_says(with_key({name, 1.0, "help", {}}),
               {"task ring-2 of ", name, ": expected data., model. or train., and lower-case"});
  CHECK(with_key({"train.a_2", 1.0, "help", {}}).empty());
  CHECK(with_key(key::data_path).empty());  // as the options of a component declare it
  check_says(with_key(ratio_key), {"data.ratio: two keys have this name"});
  for (const std::string name : {"train.steps", "data.path"})
    check_says(with_key({name, 0.25, "help", {}}), {name + ": is a key of every task"});
  const std::vector<std::pair<KeyInfo, std::string>> rows = {
      {{"data.a", 1.0, "", {}}, "data.a: has no help"},
      {{"data.a", 2.0, "help", {.high = 1}}, "the default 2.0 is not allowed; expected at most 1"},
      {{"data.a", std::int64_t{0}, "help", {.low = 1}}, "the default 0 is not allowed"},
      {{"data.a", std::string("c"), "help", {.choices = {"a", "b"}}}, "expected one of a, b"},
      {{"data.a", 1.0, "help", {.used_if = {{"data.none", {Value(true)}}}}},
       "data.a: is used with data.none = true, which cannot be set"},
      {{"data.a", 1.0, "help", {.used_if = {kind_key.is("flat")}}},
       "is used with model.kind = \"flat\", which cannot be set"},
      {{"data.a", 1.0, "help", {.used_if = {{"data.ratio", {Value(true)}}}}},
       "which cannot be set"}};
  for (const auto& [key, message] : rows) check_says(with_key(key), {message});
  CHECK(with_key({"data.a", 1.0, "help", {.used_if = {kind_key.is("wide")}}}).empty());
}

TEST_CASE("bug: metrics and options of a TaskSpec that cannot be shown were accepted") {
  const std::vector<std::pair<MetricInfo, std::string>> metrics = {
      {{.name = "", .meaning = "m"}, "metric \"\": expected a name"},
      {{.name = "test_a", .meaning = "m"}, "metric \"test_a\": expected a name, without test_"},
      {{.name = "hits", .meaning = "m"}, "metric \"hits\": two metrics have this name"},
      {{.name = "a"}, "metric \"a\": has no meaning"},
      {{.name = "a", .meaning = "m", .settings = {"data.none"}},
       "depends on data.none, which is no"}};
  for (const auto& [metric, message] : metrics) check_says(with_metric(metric), {message});
  CHECK(with_metric({.name = "loss", .meaning = "m", .settings = {"data.ratio"}}).empty());

  const std::vector<std::pair<KeyInfo, std::string>> options = {
      {{"", 1.0, "help", {}}, "--: expected lower-case letters"},
      {{"Count", 1.0, "help", {}}, "--Count: expected lower-case letters"},
      {{"a b", 1.0, "help", {}}, "--a b: expected lower-case letters"},
      {count_option, "--count: two options have this name"},
      {{"a", 1.0, "", {}}, "--a: has no help"},
      {{"a", 1.0, "help", {.used_if = {{"b", {Value(1.0)}}}}}, "--a: is used with b = 1.0"}};
  for (const auto& [option, message] : options) check_says(with_option(option), {message});
  CHECK(with_option({"top-k", 0.0, "help", {.low = 1}}).empty());  // 0: not given
}

TEST_CASE("task specs: the expected metrics of shipped configs are those of their tasks") {
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    CHECK_NOTHROW(expect_known_metric(parse_config(text, name, {})));
  }
}

TEST_CASE("bug: the throughput of tables had no unit, and its curve was one of the metrics") {
  for (const std::string unit : {"rows", "tokens", "words"}) {
    CHECK(unit_of_throughput(unit + "_per_s") == unit);
    CHECK(metric_info("table", unit + "_per_s").unit == unit + " per second");
  }
  CHECK(unit_of_throughput("rmse").empty());
  std::vector<Curve> curves(4);
  curves[0].metric = "rows_per_s", curves[1].metric = "lr", curves[2].metric = "rmse",
  curves[3].metric = "loss";
  sort_by_interest(curves);
  CHECK(curves[0].metric == "loss");
  CHECK(curves[1].metric == "rmse");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
