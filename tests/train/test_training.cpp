#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"
#include "train/loop/trainer.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/run.hpp"
#include "train/settings/keys.hpp"

// Whole trainings of tiny models by the command line.
namespace tapestry {
namespace {

using Json = nlohmann::json;

// --- tiny configs: a step takes about a millisecond ---

constexpr const char* toy_toml = R"(task = "toy-sequence"
[data]
length = 3
alphabet = 4
held_back = 20
[model]
layers = 1
heads = 2
width = 16
dropout = 0.1
[optim]
learning_rate = 3e-3
schedule = "cosine"
warmup_steps = 3
weight_decay = 0.1
clip_norm = 1.0
[train]
steps = 40
batch_size = 8
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

constexpr const char* text_toml = R"(task = "language-model"
[data]
path = "PATH"
[model]
layers = 1
heads = 2
width = 16
context = 8
dropout = 0.1
[optim]
name = "adam"
[train]
steps = 40
batch_size = 4
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

constexpr const char* vae_toml = R"(task = "vae"
[data]
training_images = 30
test_images = 10
[model]
hidden = [8]
latent = 2
kl_warmup_steps = 20
[optim]
name = "sgd"
momentum = 0.9
learning_rate = 1e-4
[train]
steps = 40
batch_size = 7
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

std::string story() {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{} bottles of milk on the wall,\n", 99 - i);
  return text;
}

// The three tasks' configs as files, and runs of them.
class Workshop {
 public:
  Workshop() {
    std::string text_config = text_toml;
    text_config.replace(text_config.find("PATH"), 4, folder.write("story.txt", story()));
    folder.write("toy.toml", toy_toml);
    folder.write("text.toml", text_config);
    folder.write("vae.toml", vae_toml);
  }

  // tapestry train CONFIG --out RUN --quiet, with "key=value" for --set.
  Finished train(const std::string& config, const std::string& run,
                 const std::vector<std::string>& more = {}, const RunOptions& options = {}) const {
    std::vector<std::string> words = {"train", folder.path(config + ".toml"), "--quiet", "--out",
                                      folder.path(run)};
    words.insert(words.end(), more.begin(), more.end());
    return tapestry_run(with_sets(words), options);
  }
  void must_train(const std::string& config, const std::string& run,
                  const std::vector<std::string>& more = {}) const {
    const Finished finished = train(config, run, more);
    INFO(finished.err);
    REQUIRE(finished.status == 0);
  }
  std::vector<Json> metrics(const std::string& run) const {
    std::vector<Json> lines;
    for (const std::string& line : lines_of(read_bytes(folder.path(run + "/metrics.jsonl"))))
      lines.push_back(Json::parse(line));
    return lines;
  }
  std::string checkpoint(const std::string& run) const {
    return folder.path(run + "/checkpoint.safetensors");
  }
  std::string best(const std::string& run) const { return folder.path(run + "/best.safetensors"); }
  Json eval(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"eval", folder.path(run), "--json"});
    const Finished finished = tapestry_run(with_sets(more));
    INFO(finished.err);
    REQUIRE(finished.status == 0);
    return Json::parse(finished.out);
  }

  TemporaryFolder folder;
};

// --- what two runs must share ---

std::vector<std::string> untimed(const std::vector<Json>& lines) {
  std::vector<std::string> texts;
  for (Json line : lines) {
    for (const char* timed : {"elapsed_s", "tokens_per_s", "examples_per_s"}) line.erase(timed);
    texts.push_back(line.dump());
  }
  return texts;
}

// Names, dtypes, shapes and bytes of every tensor, and where the training stands.
void check_same_checkpoint(const std::string& path, const std::string& other_path) {
  const Checkpoint a = load_checkpoint(path), b = load_checkpoint(other_path);
  CHECK(a.state.step == b.state.step);
  CHECK(a.state.position == b.state.position);
  CHECK(a.state.best_loss == b.state.best_loss);
  CHECK(a.metadata == b.metadata);
  REQUIRE(a.file.tensors.size() == b.file.tensors.size());
  for (std::size_t i = 0; i < a.file.tensors.size(); ++i) {
    const auto& [name, x] = a.file.tensors[i];
    const auto& [other_name, y] = b.file.tensors[i];
    CHECK(name == other_name);
    REQUIRE(x.shape() == y.shape());
    CHECK_MESSAGE(std::memcmp(x.raw(), y.raw(), x.bytes()) == 0, name);
  }
}

void check_same_run(const Workshop& shop, const std::string& run, const std::string& other) {
  check_same_checkpoint(shop.checkpoint(run), shop.checkpoint(other));
  check_same_checkpoint(shop.best(run), shop.best(other));
  CHECK(untimed(shop.metrics(run)) == untimed(shop.metrics(other)));
}

std::function<bool()> after(std::chrono::milliseconds delay) {
  const auto start = std::chrono::steady_clock::now();
  return [=] { return std::chrono::steady_clock::now() - start > delay; };
}

std::function<bool()> when_holds(const std::string& path, std::int64_t bytes = 1) {
  return [=] {
    std::error_code missing;
    const auto size = std::filesystem::file_size(path, missing);
    return !missing && static_cast<std::int64_t>(size) >= bytes;
  };
}

TEST_SUITE_BEGIN("training");

TEST_CASE("training: the same bits on 1, 2 and 3 threads") {
  const Workshop shop;
  // Large enough that sums are cut into pieces and loops into shares.
  const std::vector<std::string> larger[] = {
      {"model.width=64", "train.batch_size=64", "data.length=8"},
      {"model.width=64", "train.batch_size=16", "model.context=32"},
      {"model.hidden=[100]", "train.batch_size=30"}};
  for (const std::string precision : {"f32", "bf16"}) {
    int row = 0;
    for (const std::string config : {"toy", "text", "vae"}) {
      const std::string name = config + "-" + precision + "-";
      CAPTURE(name);
      std::vector<std::string> options = larger[row++];
      options.insert(options.end(),
                     {"train.steps=12", "train.precision=" + precision, "--threads", "1"});
      for (const std::string threads : {"1", "2", "3"}) {
        options.back() = threads;
        shop.must_train(config, name + threads, options);
        check_same_run(shop, name + "1", name + threads);
      }
    }
  }
}

TEST_CASE("training: a run that is killed at any moment and resumed ends as one never stopped") {
  const Workshop shop;
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    shop.must_train(config, config + "-whole");
    const std::string run = config + "-killed", metrics = shop.folder.path(run + "/metrics.jsonl");
    const std::string tail = shop.folder.path(run + "/checkpoint.safetensors.tmp");
    // Before there is a folder, as metrics appear, in a checkpoint's writing, and then anywhere.
    std::vector<std::function<bool()>> moments = {
        after(std::chrono::milliseconds(0)),
        when_holds(shop.folder.path(run + "/config.toml")),
        when_holds(metrics),
        when_holds(tail),
        when_holds(metrics, 900),
        when_holds(tail),
        when_holds(metrics, 1500)};
    int killed = 0;
    for (const auto& moment : moments)
      killed += shop.train(config, run, {"--resume"}, {.when = moment}).status == 128 + SIGKILL;
    for (int delay = 12; delay < 60; delay += 3)
      killed +=
          shop.train(config, run, {"--resume"}, {.when = after(std::chrono::milliseconds(delay))})
              .status == 128 + SIGKILL;
    CHECK(killed >= 3);
    shop.must_train(config, run, {"--resume"});
    check_same_run(shop, config + "-whole", run);
    CHECK(!std::filesystem::exists(tail));
    shop.must_train(config, run, {"--resume"});  // again, when there is nothing left to do
    check_same_run(shop, config + "-whole", run);
  }
}

TEST_CASE("training: Ctrl-C and SIGTERM write a checkpoint, exit 130, and resuming equals") {
  const Workshop shop;
  shop.must_train("toy", "whole", {"train.checkpoint_every=0"});
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const std::string run = fmt::format("stopped-{}", signal);
    // No checkpoint is due before the end: the one found is the signal's.
    Finished stopped = shop.train(
        "toy", run, {"train.checkpoint_every=0", "train.steps=100000"},
        {.when = when_holds(shop.folder.path(run + "/metrics.jsonl")), .signal = signal});
    CHECK(stopped.status == 130);
    CHECK(stopped.err.empty());
    check_says(stopped.out, {"stopped after step", "--resume"});
    CHECK(load_checkpoint(shop.checkpoint(run)).state.step > 0);
  }

  // The schedule depends on train.steps, so what is compared is stopped with the same.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Finished stopped =
        shop.train("toy", "again", {"--resume", "train.checkpoint_every=0"},
                   {.when = attempt % 2 == 0 ? when_holds(shop.folder.path("again/metrics.jsonl"))
                                             : after(std::chrono::milliseconds(9 + attempt)),
                    .signal = SIGINT});
    if (stopped.status == 0) break;
    CHECK(stopped.status == 130);  // also of a process that died of SIGINT before it could stop
  }
  shop.must_train("toy", "again", {"--resume", "train.checkpoint_every=0"});
  check_same_run(shop, "whole", "again");
}

TEST_CASE("training: N steps are k steps and the rest") {
  const Workshop shop;
  const auto to = [](const char* steps) {
    return std::vector<std::string>{"optim.schedule=constant", std::string("train.steps=") + steps};
  };
  shop.must_train("toy", "whole", to("40"));
  shop.must_train("toy", "parts", to("10"));
  for (const char* steps : {"30", "40"}) {
    std::vector<std::string> options = to(steps);
    options.push_back("--resume");
    shop.must_train("toy", "parts", options);
  }
  check_same_run(shop, "whole", "parts");
}

TEST_CASE("training: evaluating, logging or saving more often changes nothing") {
  const Workshop shop;
  for (const std::string config : {"toy", "vae"}) {  // with dropout, and with noise of its own
    CAPTURE(config);
    shop.must_train(config, config, {"train.eval_every=0"});
    shop.must_train(config, config + "-often",
                    {"train.eval_every=1", "train.log_every=1", "train.checkpoint_every=1"});
    const Checkpoint a = load_checkpoint(shop.checkpoint(config));
    const Checkpoint b = load_checkpoint(shop.checkpoint(config + "-often"));
    for (std::size_t i = 0; i < a.file.tensors.size(); ++i)
      CHECK(std::memcmp(a.file.tensors[i].second.raw(), b.file.tensors[i].second.raw(),
                        a.file.tensors[i].second.bytes()) == 0);
    const std::vector<Json> often = shop.metrics(config + "-often");
    CHECK(often.size() == 80);
    CHECK(untimed({often.back()}) == untimed({shop.metrics(config).back()}));
  }
}

TEST_CASE("bug: a checkpoint was written at every step, whatever train.checkpoint_every said") {
  const Workshop shop;
  const Finished finished =
      shop.train("toy", "run", {"train.checkpoint_every=0", "train.steps=1000"},
                 {.when = when_holds(shop.folder.path("run/metrics.jsonl"), 1000)});
  REQUIRE(finished.status == 128 + SIGKILL);
  CHECK(!std::filesystem::exists(shop.checkpoint("run")));
}

TEST_CASE("training: micro-batches give the loss and gradient of the whole batch") {
  const Workshop shop;
  const std::pair<std::string, std::vector<std::string>> rows[] = {
      {"toy", {"model.dropout=0", "data.kind=addition"}}, {"text", {"model.dropout=0"}}};
  for (const auto& [config, more] : rows) {
    CAPTURE(config);
    std::vector<Json> whole;
    for (const std::string parts : {"1", "2", "4"}) {
      CAPTURE(parts);
      std::vector<std::string> options = {"train.micro_batches=" + parts, "train.log_every=1",
                                          "train.steps=10"};
      options.insert(options.end(), more.begin(), more.end());
      shop.must_train(config, config + parts, options);
      const std::vector<Json> lines = shop.metrics(config + parts);
      if (parts == "1") whole = lines;
      REQUIRE(lines.size() == whole.size());
      for (std::size_t i = 0; i < lines.size(); ++i) {
        CHECK(std::abs(lines[i]["loss"].get<double>() - whole[i]["loss"].get<double>()) < 1e-5);
        if (lines[i]["split"] == "train")
          CHECK(std::abs(lines[i]["grad_norm"].get<double>() -
                         whole[i]["grad_norm"].get<double>()) < 1e-4);
      }
    }
  }
}

// The examples of another dataset, of which example i keeps only i mod 4 of its last targets and
// one more, so that micro-batches count unequal numbers of targets.
class UnevenData final : public Dataset {
 public:
  explicit UnevenData(const Dataset& whole) : whole_(whole) {}
  std::int64_t size() const override { return whole_.size(); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch = whole_.batch(examples);
    const std::int64_t T = batch.targets.dim(1);
    const auto targets = batch.targets.mutable_values<std::int32_t>();
    for (std::size_t b = 0; b < examples.size(); ++b)
      std::fill_n(targets.begin() + static_cast<std::int64_t>(b) * T, T - 1 - examples[b] % 4,
                  ignored_target);
    batch.count = static_cast<double>(
        std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; }));
    return batch;
  }

 private:
  const Dataset& whole_;
};

class UnevenTask final : public Task {
 public:
  explicit UnevenTask(const Config& config)
      : task_(make_task({config})), data_(task_->training_data()) {}
  Module& model() override { return task_->model(); }
  const Dataset& training_data() override { return data_; }
  const Dataset& validation_data() override { return task_->validation_data(); }
  Loss loss(const Batch& batch, const Pass& pass) override { return task_->loss(batch, pass); }
  void derive(Metrics& metrics) const override { task_->derive(metrics); }
  Sample sample(const SampleOptions& options) override { return task_->sample(options); }

 private:
  std::unique_ptr<Task> task_;
  UnevenData data_;
};

TEST_CASE("training: every target weighs the same, however unequally micro-batches hold them") {
  const Workshop shop;
  for (const std::string name : {"toy", "text"}) {
    CAPTURE(name);
    std::vector<Json> whole;
    for (const std::string parts : {"1", "2", "4"}) {
      CAPTURE(parts);
      const Config config = load_config(shop.folder.path(name + ".toml"),
                                        {"model.dropout=0", "train.steps=5", "train.log_every=1",
                                         "train.batch_size=4", "train.micro_batches=" + parts});
      UnevenTask task(config);
      const std::string run = name + parts;
      std::filesystem::create_directories(shop.folder.path(run));
      const std::atomic<bool> never = false;
      Trainer(task, config, Run(shop.folder.path(run)), nullptr, never, {.quiet = true}).train();
      const std::vector<Json> lines = shop.metrics(run);
      if (parts == "1") whole = lines;
      REQUIRE(lines.size() == 6);
      for (std::size_t i = 0; i < lines.size(); ++i)
        for (const char* field : {"loss", "grad_norm"})
          if (lines[i].contains(field))
            CHECK(std::abs(lines[i][field].get<double>() - whole[i][field].get<double>()) < 1e-5);
    }
  }
}

TEST_CASE("training: checkpointed activations give the same run") {
  const Workshop shop;
  for (const std::string config : {"toy", "text"}) {
    shop.must_train(config, config + "-kept");
    shop.must_train(config, config + "-computed", {"train.checkpoint_activations=true"});
    check_same_run(shop, config + "-kept", config + "-computed");
  }
}

TEST_CASE("training: bf16 rounds the operands of products, and learns as well") {
  const Workshop shop;
  shop.must_train("text", "f32");
  shop.must_train("text", "bf16", {"train.precision=bf16"});
  const double f32 = shop.metrics("f32").back()["loss"], bf16 = shop.metrics("bf16").back()["loss"];
  CHECK(f32 != bf16);
  CHECK(std::abs(f32 - bf16) < 0.02);
  CHECK(shop.eval("bf16")["loss"] == bf16);
  // Other bits: a run goes on in the precision it began with.
  CHECK(shop.train("text", "f32", {"train.precision=bf16", "--resume"}).status == 2);
}

TEST_CASE("training: --profile prints where the time goes, and leaves a trace of it") {
  const Workshop shop;
  const Finished finished = shop.train("toy", "profiled", {"--profile"});
  REQUIRE(finished.status == 0);
  check_says(finished.out, {"over 20 steps", "GFLOP/s", "GB/s", "linear", "packed_self_attention",
                            "cross_entropy", "forward", "backward", "optimizer", "clip", "batch",
                            "trace.json", "ui.perfetto.dev"});
  const Json trace = Json::parse(read_bytes(shop.folder.path("profiled/trace.json")));
  double end = 0, flops = 0;
  for (const Json& event : trace["traceEvents"]) {
    CHECK(event["ph"] == "X");
    CHECK(event["ts"].get<double>() >= end - 1e-3);  // in order, none over another
    end = event["ts"].get<double>() + event["dur"].get<double>();
    flops += event["args"]["gflop"].get<double>() * 1e9;
    if (event["name"] == "packed_self_attention")
      CHECK(event["args"]["scope"] == "blocks.0.attention");
  }
  // One block of width 16 over 8 · 6 tokens, counted by hand: the products' three directions of
  // 48 × (16 · (48 + 16 + 64 + 64) + 16 · 5) and attention's 2 + 5 products of 8 · 2 heads · 21
  // visible pairs · 8 columns.
  const double linear = 3 * 2.0 * 48 * (16 * 192 + 16 * 5), attention = 7 * 2.0 * 8 * 2 * 21 * 8;
  CHECK(flops / 20 == doctest::Approx(linear + attention).epsilon(1e-3));

  shop.must_train("toy", "plain");
  check_same_run(shop, "profiled", "plain");
  const Finished brief = shop.train("toy", "brief", {"train.steps=3", "--profile"});
  CHECK(brief.status == 0);
  check_says(brief.out, {"no profile: it looks at the steps after the first 5"});
}

TEST_CASE("training: a loss that is not finite ends the run, and what was saved before stays") {
  const Workshop shop;
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    const Finished finished =
        shop.train(config, config,
                   {"optim.name=sgd", "optim.learning_rate=1000", "train.checkpoint_every=1",
                    "optim.warmup_steps=1000000", "train.steps=1000000", "optim.momentum=1",
                    "optim.clip_norm=0", "train.eval_every=0"});
    CHECK(finished.status == 1);
    CHECK(lines_of(finished.err).size() == 1);
    check_says(finished.err, {"tapestry: step ", "--set train.check_finite=true",
                              "stays in " + shop.folder.path(config)});
    CHECK(load_checkpoint(shop.checkpoint(config)).state.step > 0);
  }
}

TEST_CASE("bug: an evaluation that was not finite was no failure") {
  const Workshop shop;
  const Finished finished =
      shop.train("toy", "run",
                 {"optim.name=sgd", "optim.learning_rate=1000", "optim.schedule=constant",
                  "optim.warmup_steps=0", "optim.clip_norm=0", "train.steps=3"});
  CHECK(finished.status == 1);
  check_says(finished.err, {"step 3: ", "validation loss", "--set train.check_finite=true"});
  CHECK(!std::filesystem::exists(shop.best("run")));
}

TEST_CASE("training: check_finite names the step, the op and its module") {
  const Workshop shop;
  const Finished finished =
      shop.train("toy", "run",
                 {"optim.name=sgd", "optim.learning_rate=1000", "optim.clip_norm=0",
                  "train.check_finite=true", "train.steps=1000000", "optim.momentum=1"});
  CHECK(finished.status == 1);
  CHECK(lines_of(finished.err).size() == 1);
  check_says(finished.err, {"tapestry: step ", ": the output of ", " in blocks.0.attention",
                            " is not finite: ", shop.folder.path("run")});
}

TEST_CASE("training: every line of metrics has its fields") {
  const Workshop shop;
  const std::pair<std::string, std::string> units[] = {
      {"toy", "examples_per_s"}, {"text", "tokens_per_s"}, {"vae", "examples_per_s"}};
  for (const auto& [config, speed] : units) {
    CAPTURE(config);
    shop.must_train(config, config);
    std::vector<std::int64_t> train_steps, val_steps;
    double elapsed = 0;
    for (const Json& line : shop.metrics(config)) {
      CAPTURE(line.dump());
      for (const char* field : {"step", "loss", "elapsed_s"}) CHECK(line[field].is_number());
      CHECK(line["elapsed_s"].get<double>() >= elapsed);
      elapsed = line["elapsed_s"];
      const bool train = line["split"] == "train";
      CHECK((train || line["split"] == "val"));
      (train ? train_steps : val_steps).push_back(line["step"]);
      for (const std::string& field : {std::string("lr"), std::string("grad_norm"), speed})
        CHECK(line.contains(field) == train);
      if (train) CHECK(line[speed].get<double>() > 0);
    }
    CHECK(train_steps ==
          std::vector<std::int64_t>{3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39});
    CHECK(val_steps == std::vector<std::int64_t>{10, 20, 30, 40});
  }
}

TEST_CASE("eval: prints what the run's evaluation said, with its task's own figures") {
  const Workshop shop;
  const std::pair<std::string, std::vector<std::string>> fields[] = {
      {"toy", {"exact_match"}},
      {"text", {"bits_per_char"}},
      {"vae", {"recon", "kl", "elbo", "mse"}}};
  for (const auto& [config, own] : fields) {
    CAPTURE(config);
    shop.must_train(config, config);
    std::filesystem::remove(shop.best(config));  // the last checkpoint
    const Json result = shop.eval(config);
    const Json last = shop.metrics(config).back();
    CHECK(result.size() == last.size());
    for (const auto& [name, value] : last.items())
      if (name != "elapsed_s") CHECK_MESSAGE(result[name] == value, name);
    for (const std::string& field : own) CHECK(result[field].is_number());
    const double loss = result["loss"];
    if (config == "text") CHECK(result["bits_per_char"] == doctest::Approx(loss / std::log(2)));
    if (config == "vae") {
      CHECK(result["elbo"].get<double>() == -loss);
      CHECK(loss == doctest::Approx(result["recon"].get<double>() + result["kl"].get<double>()));
    }
    // The batches do not matter where nothing is drawn at random.
    if (config != "vae")
      CHECK(shop.eval(config, {"train.eval_batch_size=3"})["loss"].get<double>() ==
            doctest::Approx(loss));
    check_says(tapestry_run({"eval", shop.folder.path(config)}).out, {"step 40: loss "});
  }
}

TEST_CASE("training: best.safetensors is of the best evaluation") {
  const Workshop shop;
  // A learning rate that rises too high: the first evaluations are the best.
  shop.must_train("toy", "run",
                  {"optim.name=sgd", "optim.schedule=constant", "optim.warmup_steps=30",
                   "optim.learning_rate=30", "train.eval_every=1"});
  double best = INFINITY;
  std::int64_t best_step = 0, evaluations = 0;
  for (const Json& line : shop.metrics("run"))
    if (line["split"] == "val") {
      ++evaluations;
      if (line["loss"].get<double>() < best) best = line["loss"], best_step = line["step"];
    }
  CHECK(evaluations == 40);
  CHECK(best_step < 40);
  CHECK(load_checkpoint(shop.best("run")).state.step == best_step);
  const Json result = shop.eval("run");
  CHECK(result["step"] == best_step);
  CHECK(result["loss"] == best);
  CHECK(shop.eval("run/checkpoint.safetensors")["step"] == 40);
}

TEST_CASE("eval: a run without its data, and with other data") {
  const Workshop shop;
  shop.must_train("text", "run");
  const std::string other = shop.folder.write("other.txt", story() + story());
  const std::string digits = shop.folder.write("unknown.txt", story() + "5 € please\n" + story());
  CHECK(shop.eval("run", {"data.path=" + other})["loss"].get<double>() > 0);

  const auto eval = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"eval", shop.folder.path("run")};
    command.insert(command.end(), more.begin(), more.end());
    const Finished finished = tapestry_run(with_sets(command));
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    return finished.err;
  };
  check_says(eval({"data.path=" + digits}), {"unknown.txt", "'€'", "U+20AC"});
  check_says(eval({"data.path=" + shop.folder.path("none")}), {"no such file"});
  std::filesystem::rename(shop.folder.path("story.txt"), shop.folder.path("moved.txt"));
  check_says(eval({}), {"story.txt", "no such file", "--set data.path=FILE"});
  const std::string moved = shop.folder.path("moved.txt");
  CHECK(shop.eval("run", {"data.path=" + moved})["loss"].get<double>() > 0);
  // A sample needs no data.
  const Finished sample =
      tapestry_run({"sample", shop.folder.path("run"), "--prompt", "9 bottles", "--tokens", "20"});
  CHECK(sample.status == 0);
  CHECK(sample.out.starts_with("9 bottles"));
}

TEST_CASE("bug: the command that Ctrl-C advises to go on with forgot what --set had said") {
  const Workshop shop;
  const Finished stopped =
      shop.train("toy", "run", {"train.steps=100000", "model.width=8"},
                 {.when = when_holds(shop.folder.path("run/metrics.jsonl")), .signal = SIGINT});
  REQUIRE(stopped.status == 130);
  const std::string config = shop.folder.path("run/config.toml");
  check_says(stopped.out, {"tapestry train " + config});
  const auto step = std::to_string(load_checkpoint(shop.checkpoint("run")).state.step);
  const Finished resumed = tapestry_run(with_sets(
      {"train", config, "--out", shop.folder.path("run"), "--resume", "train.steps=" + step}));
  CHECK(resumed.status == 0);
}

TEST_CASE("bug: a run went on with other data without a word") {
  const Workshop shop;
  shop.must_train("text", "run");
  const std::string longer = shop.folder.write("longer.txt", story() + story());
  const Finished resumed = shop.train("text", "run", {"--resume", "data.path=" + longer});
  CHECK(resumed.status == 2);
  check_says(resumed.err, {"examples", "not the same data"});
}

TEST_CASE("bug: two processes could train into one folder") {
  const Workshop shop;
  std::filesystem::create_directories(shop.folder.path("run"));
  const RunLock lock{Run(shop.folder.path("run"))};
  const Finished second = shop.train("toy", "run");
  CHECK(second.status == 2);
  check_says(second.err, {"another process trains into this folder"});
}

TEST_CASE("bug: a model smaller than its checkpoint was evaluated with the tensors that fitted") {
  const Workshop shop;
  shop.must_train("toy", "run", {"model.layers=2"});
  const Finished eval =
      tapestry_run(with_sets({"eval", shop.folder.path("run"), "model.layers=1"}));
  CHECK(eval.status == 2);
  check_says(eval.err, {"tensor blocks.1.", "has no place"});
}

TEST_CASE("bug: a sample written to a device or a link replaced it") {
  const Workshop shop;
  shop.must_train("toy", "run");
  const std::string link = shop.folder.path("link"), target = shop.folder.write("target", "");
  std::filesystem::create_symlink(target, link);
  CHECK(tapestry_run({"sample", shop.folder.path("run"), "--out", link}).status == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_bytes(target).find('>') != std::string::npos);
}

TEST_CASE("training: the variants of a VAE and of a transformer run") {
  const Workshop shop;
  const std::pair<std::string, std::vector<std::string>> rows[] = {
      {"vae", {"model.beta=4"}},
      {"vae", {"model.beta=0"}},
      {"vae", {"model.likelihood=gaussian"}},
      {"vae", {"model.sigma=shared"}},
      {"vae", {"model.sigma=none"}},
      {"vae", {"model.sigma=none", "model.likelihood=gaussian", "model.reconstruction_weight=5"}},
      {"vae", {"model.channels=[2, 3]"}},
      {"vae", {"model.sigma=shared", "model.likelihood=gaussian", "model.activation=relu"}},
      {"vae", {"model.hidden=[9, 7, 5]", "model.kl_warmup_steps=5", "train.micro_batches=7"}},
      {"toy", {"data.kind=reverse", "model.norm=post", "model.positions=sinusoidal"}},
      {"toy", {"model.positions=rotary", "train.checkpoint_activations=true"}},
      {"toy", {"model.positions=none", "model.window=3"}},
      {"toy", {"model.attention=random-features", "model.gate=true", "train.micro_batches=2"}},
      {"toy", {"model.attention=random-features", "model.feature_map=positive"}},
      {"text", {"model.attention=random-features", "model.features=7"}},
      {"toy", {"data.kind=copy", "model.tied_embeddings=false", "model.bias=false"}},
      {"toy", {"model.activation=gelu_tanh", "model.feed_forward=5", "model.heads=1"}},
      {"toy", {"data.kind=addition", "optim.decay_all=true", "optim.schedule=linear"}},
      {"text", {"optim.name=adamw", "data.validation_fraction=0.5", "model.layers=3"}}};
  int made = 0;
  for (const auto& [config, keys] : rows) {
    CAPTURE(keys.front());
    std::vector<std::string> options = {"train.steps=6"};
    options.insert(options.end(), keys.begin(), keys.end());
    const std::string run = fmt::format("run-{}", made++);
    shop.must_train(config, run, options);
    CHECK(std::isfinite(shop.eval(run)["loss"].get<double>()));
    CHECK(tapestry_run({"sample", shop.folder.path(run), "--out", shop.folder.path("sample")})
              .status == 0);
  }
}

TEST_CASE("training: the KL term's weight rises in warm-up, for which no reported loss waits") {
  const Workshop shop;
  const auto objective = [&](double beta, std::int64_t step, bool training) {
    const std::vector<std::string> overrides{"model.kl_warmup_steps=10",
                                             fmt::format("model.beta={}", beta)};
    const Config config = load_config(shop.folder.path("vae.toml"), overrides);
    const auto task = make_task({config});
    const std::int64_t examples[] = {0, 1, 2};
    Random noise(1, Stream::dropout);
    const Loss loss = task->loss(task->training_data().batch(examples),
                                 {.training = training, .step = step, .noise = &noise});
    const double recon = loss.averages.at("recon").sum, kl = loss.averages.at("kl").sum;
    CHECK(loss.averages.at("loss").sum == doctest::Approx(recon + beta * kl));
    return (loss.objective.item() - recon) / kl;
  };
  CHECK(objective(1, 0, true) == doctest::Approx(0.0));
  CHECK(objective(1, 0, false) == doctest::Approx(1.0).epsilon(1e-3));
  CHECK(objective(1, 5, true) == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(objective(1, 10, true) == doctest::Approx(1.0).epsilon(1e-3));
  CHECK(objective(4, 5, true) == doctest::Approx(2.0).epsilon(1e-3));
  CHECK(objective(4, 99, true) == doctest::Approx(4.0).epsilon(1e-3));
}

TEST_CASE("training: a reconstruction's weight is of means, and m/n of them is the ELBO") {
  const Workshop shop;
  const double m = 28 * 28, n = 2;
  const auto objective = [&](double weight) {  // and recon and kl
    const Config config = load_config(shop.folder.path("vae.toml"),
                                      {fmt::format("model.reconstruction_weight={}", weight)});
    const auto task = make_task({config});
    Random noise(1, Stream::dropout);
    const Loss loss = task->loss(task->training_data().batch(std::array<std::int64_t, 2>{0, 1}),
                                 {.training = true, .step = 99, .noise = &noise});
    return std::array{loss.objective.item(), loss.averages.at("recon").sum,
                      loss.averages.at("kl").sum};
  };
  for (const double weight : {0.0, m / n, 7.5}) {
    CAPTURE(weight);
    const auto [total, recon, kl] = objective(weight);
    const double w = weight == 0 ? m / n : weight;
    CHECK(total / n == doctest::Approx(w * recon / m + kl / n).epsilon(1e-5));
  }
}

TEST_CASE("training: what is learnt is learnt") {
  const Workshop shop;
  shop.must_train(
      "toy", "run",
      {"data.kind=copy", "train.steps=300", "train.batch_size=32", "optim.learning_rate=1e-2",
       "model.width=32", "model.dropout=0", "data.length=3", "train.eval_every=100"});
  CHECK(shop.eval("run")["exact_match"] == 1.0);
  const Finished sample = tapestry_run({"sample", shop.folder.path("run"), "--prompt", "310"});
  CHECK(sample.out == "310>310  right\n");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
