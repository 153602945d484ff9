#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/keys.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

std::function<bool()> after(std::chrono::milliseconds delay) {
  const auto start = std::chrono::steady_clock::now();
  return [=] { return std::chrono::steady_clock::now() - start > delay; };
}

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture, "training: has the same bits on 1, 2 and 3 threads") {
  // Large enough that sums are cut into pieces and loops are divided among threads.
  const Strings larger[] = {{"model.width=64", "train.batch_size=64", "data.length=8"},
                            {"model.width=64", "train.batch_size=16", "model.context=32"},
                            {"model.hidden=[100]", "train.batch_size=30"}};
  for (const std::string precision : {"f32", "bf16"}) {
    int row = 0;
    for (const std::string config : {"toy", "text", "vae"}) {
      const std::string name = config + "-" + precision + "-";
      CAPTURE(name);
      const Words options =
          larger[row++] + Words("train.steps=12 train.precision={} --threads", precision);
      for (const std::string threads : {"1", "2", "3"}) {
        must_train(config, name + threads, options + threads);
        check_same_run(*this, name + "1", name + threads);
      }
    }
  }
}

TEST_CASE_FIXTURE(RunFixture, "training: a run killed at any moment resumes with the same bits") {
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    must_train(config, config + "-whole");
    const std::string run = config + "-killed", metrics = path(run + "/metrics.jsonl");
    const auto writes_checkpoint = [folder = path(run)] {
      std::error_code missing;
      for (const auto& entry : fs::directory_iterator(folder, missing))
        if (const std::string name = entry.path().filename().string();
            name.ends_with(".tmp") && contains(name, "checkpoint.safetensors"))
          return true;
      return false;
    };
    // Before the folder exists, when metrics are written, while a checkpoint is written, and at
    // other moments.
    std::vector<std::function<bool()>> moments = {after(std::chrono::milliseconds(0)),
                                                  when_holds(path(run + "/config.toml")),
                                                  when_holds(metrics),
                                                  writes_checkpoint,
                                                  when_holds(metrics, 900),
                                                  writes_checkpoint,
                                                  when_holds(metrics, 1500)};
    const auto kill_at = [&](const std::function<bool()>& moment) {
      const Words more = has(run) ? "--resume" : "";
      if (const int status = train(config, run, more, {.when = moment}).status; status != 0)
        CHECK(status == 128 + SIGKILL);  // or it ended before this process checked
    };
    for (const auto& moment : moments) kill_at(moment);
    for (int delay = 12; delay < 60; delay += 6) kill_at(after(std::chrono::milliseconds(delay)));
    must_train(config, run, "--resume");
    check_same_run(*this, config + "-whole", run);
    CHECK(!writes_checkpoint());          // nothing is left half written
    must_train(config, run, "--resume");  // again, after the last step
    check_same_run(*this, config + "-whole", run);
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: Ctrl-C, SIGTERM and SIGHUP write a checkpoint, exit 130, and resume") {
  must_train("toy", "whole", "train.checkpoint_every=0");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const std::string run = fmt::format("stopped-{}", signal);
    // No checkpoint is due before the end: the one found is the signal's.
    Finished stopped = train("toy", run, "train.checkpoint_every=0 train.steps=100000",
                             {.when = when_holds(path(run + "/metrics.jsonl")), .signal = signal});
    CHECK(stopped.status == 130);
    CHECK(stopped.err.empty());
    check_says(stopped.out, {"stopped after step", "--resume"});
    CHECK(load_checkpoint(checkpoint(run)).state.step > 0);
  }

  // The schedule depends on train.steps, so all runs have the same.
  for (int attempt = 0; attempt < 20; ++attempt) {
    Words more = "train.checkpoint_every=0";
    if (has("again")) more.push_back("--resume");
    const Finished stopped =
        train("toy", "again", more,
              {.when = attempt % 2 == 0 ? when_holds(path("again/metrics.jsonl"))
                                        : after(std::chrono::milliseconds(9 + attempt)),
               .signal = SIGINT});
    if (stopped.status == 0) break;
    CHECK(stopped.status == 130);  // also of a process that SIGINT killed before it could stop
  }
  must_train("toy", "again", "--resume train.checkpoint_every=0");
  check_same_run(*this, "whole", "again");
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: more frequent evaluations, logs and checkpoints change no bits") {
  for (const std::string config : {"toy", "vae"}) {  // with dropout, and with noise of its own
    CAPTURE(config);
    must_train(config, config, "train.eval_every=0");
    must_train(config, config + "-often",
               "train.eval_every=1 train.log_every=1 train.checkpoint_every=1");
    const auto a = load_checkpoint(checkpoint(config));
    const auto b = load_checkpoint(checkpoint(config + "-often"));
    for (std::size_t i = 0; i < a.file.tensors.size(); ++i)
      CHECK(same_bits(a.file.tensors[i].second, b.file.tensors[i].second));
    CHECK(metrics(config + "-often").size() ==
          (config == "vae" ? 81 : 80));  // and a test evaluation
    CHECK(untimed({last_validation(config + "-often")}) == untimed({last_validation(config)}));
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: every step wrote a checkpoint despite checkpoint_every") {
  REQUIRE(train("toy", "run", "train.checkpoint_every=0 train.steps=1000000",
                {.when = when_holds(path("run/metrics.jsonl"), 1000)})
              .status == 128 + SIGKILL);
  CHECK(!fs::exists(checkpoint("run")));
}

TEST_CASE_FIXTURE(RunFixture, "training: micro-batches give the whole batch's loss and gradient") {
  const std::pair<std::string, Words> rows[] = {{"toy", "model.dropout=0 data.kind=addition"},
                                                {"text", "model.dropout=0"}};
  for (const auto& [config, more] : rows) {
    CAPTURE(config);
    std::vector<Json> whole;
    for (const std::string parts : {"1", "2", "4"}) {
      CAPTURE(parts);
      must_train(config, config + parts,
                 Words("train.micro_batches={} train.log_every=1 train.steps=10", parts) + more);
      const std::vector<Json> lines = metrics(config + parts);
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
  void add_derived_metrics(Metrics& metrics) const override { task_->add_derived_metrics(metrics); }

 private:
  std::unique_ptr<Task> task_;
  UnevenData data_;
};

TEST_CASE_FIXTURE(RunFixture, "training: targets have equal weights in unequal micro-batches") {
  for (const std::string name : {"toy", "text"}) {
    CAPTURE(name);
    std::vector<Json> whole;
    for (const std::string parts : {"1", "2", "4"}) {
      CAPTURE(parts);
      const Config config = load_config(path(name + ".toml"),
                                        {"model.dropout=0", "train.steps=5", "train.log_every=1",
                                         "train.batch_size=4", "train.micro_batches=" + parts});
      UnevenTask task(config);
      const std::string run = name + parts;
      fs::create_directories(path(run));
      const std::atomic<bool> never = false;
      RunLock lock(Run(path(run)), RunLock::Folder::find);
      Ranks alone;
      Trainer trainer(task, config, Run(path(run)), nullptr, never, alone, &lock);
      trainer.add(record_metrics(lock));
      trainer.train();
      const std::vector<Json> lines = metrics(run);
      if (parts == "1") whole = lines;
      REQUIRE(lines.size() == 6);
      for (std::size_t i = 0; i < lines.size(); ++i)
        for (const char* field : {"loss", "grad_norm"})
          if (lines[i].contains(field))
            CHECK(std::abs(lines[i][field].get<double>() - whole[i][field].get<double>()) < 1e-5);
    }
  }
}

TEST_CASE_FIXTURE(RunFixture, "training: recomputed activations give the same bits") {
  for (const std::string config : {"toy", "text"}) {
    must_train(config, config + "-kept");
    must_train(config, config + "-computed", "train.checkpoint_activations=true");
    check_same_run(*this, config + "-kept", config + "-computed");
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: bf16 rounds operands of matrix products, and learns as well") {
  must_train("text", "f32");
  must_train("text", "bf16", "train.precision=bf16");
  const double f32 = metrics("f32").back()["loss"], bf16 = metrics("bf16").back()["loss"];
  CHECK(f32 != bf16);
  CHECK(std::abs(f32 - bf16) < 0.02);
  CHECK(eval("bf16")["loss"] == bf16);
  // A run keeps the precision with which it began.
  CHECK(train("text", "f32", "train.precision=bf16 --resume").status == 2);
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: a loss that is not finite ends the run, and saved files stay") {
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    check_fails(train(config, config,
                      "optim.name=sgd optim.learning_rate=1000 train.checkpoint_every=1 "
                      "optim.warmup_steps=1000000 train.steps=1000000 optim.momentum=1 "
                      "optim.clip_norm=0 train.eval_every=0"),
                {"tapestry: step ", " is not finite: ", "training examples ",
                 "the checkpoints in " + path(config)},
                1);
    CHECK(load_checkpoint(checkpoint(config)).state.step > 0);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: an evaluation that was not finite ended with status 0") {
  check_fails(train("toy", "run",
                    "optim.name=sgd optim.learning_rate=1000 optim.schedule=constant "
                    "optim.warmup_steps=0 optim.clip_norm=0 train.steps=3"),
              {"step 3: ", "validation loss", ": the output of "}, 1);
  CHECK(!fs::exists(best("run")));
}

TEST_CASE_FIXTURE(RunFixture, "training: check_finite names the step, the op and its module") {
  check_fails(train("toy", "run",
                    "optim.name=sgd optim.learning_rate=1000 optim.clip_norm=0 "
                    "train.check_finite=true train.steps=1000000 optim.momentum=1"),
              {"tapestry: step ", ": the output of ", " in blocks.0.attention",
               " is not finite: ", "; training examples ", path("run")},
              1);
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: the KL weight warms up in the objective, not in reported losses") {
  const auto objective = [&](double beta, std::int64_t step, bool training) {
    const Strings overrides{"model.kl_warmup_steps=10", fmt::format("model.beta={}", beta)};
    const Config config = load_config(path("vae.toml"), overrides);
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

TEST_CASE_FIXTURE(RunFixture, "training: the KL weight refers to means, and m/n gives the ELBO") {
  const double m = 28 * 28, n = 2;
  const auto objective = [&](double weight) {  // and recon and kl
    const Config config =
        load_config(path("vae.toml"), {fmt::format("model.reconstruction_weight={}", weight)});
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

TEST_CASE_FIXTURE(RunFixture, "training: models reach the expected losses") {
  must_train("toy", "run",
             "data.kind=copy train.steps=300 train.batch_size=32 optim.learning_rate=1e-2 "
             "model.width=32 model.dropout=0 data.length=3 train.eval_every=100");
  CHECK(eval("run")["exact_match"] == 1.0);
  CHECK(tapestry_run("sample {} --prompt 310", path("run")).out == "310>310  right\n");
}

// Tests trainings that end before their last step, and averaged weights.

// A training that cannot learn: no evaluation after the first improves.
const Words idle = "optim.learning_rate=0 train.eval_every=2 train.early_stopping=2";

TEST_CASE_FIXTURE(RunFixture,
                  "training: ends after the given number of evaluations without improvement") {
  must_train("toy", "run", idle);
  CHECK(load_checkpoint(checkpoint("run")).state.step == 6);
  CHECK(load_checkpoint(best("run")).state.step == 2);
  const auto lines = untimed(metrics("run"));

  Words again = idle + "--resume";
  must_train("toy", "run", again);  // no step is left
  CHECK(load_checkpoint(checkpoint("run")).state.step == 6);
  CHECK(untimed(metrics("run")) == lines);

  again.push_back("train.early_stopping=4");
  must_train("toy", "run", again);
  CHECK(load_checkpoint(checkpoint("run")).state.step == 10);
}

TEST_CASE_FIXTURE(
    RunFixture,
    "training: an improvement below min_delta does not count, but its model is the best") {
  must_train("toy", "run", "train.eval_every=5 train.early_stopping=3 train.min_delta=1000");
  CHECK(load_checkpoint(checkpoint("run")).state.step == 20);
  CHECK(load_checkpoint(best("run")).state.step > 5);
  check_says(train("toy", "other", "train.eval_every=0 train.early_stopping=1").err,
             {"train.early_stopping", "train.eval_every"});
  check_says(train("toy", "other", "train.min_delta=1").err, {"train.min_delta"});
}

TEST_CASE_FIXTURE(RunFixture, "training: stops after its time, and resumes with the same bits") {
  const Finished stopped = train("toy", "run", "train.time_limit=1e-9");
  CHECK(stopped.status == 130);
  check_says(stopped.out, {"stopped after step 0", "to resume: "});
  CHECK(load_checkpoint(checkpoint("run")).state.step == 0);
  must_train("toy", "run", "--resume");
  must_train("toy", "whole");
  check_same_run(*this, "run", "whole");
}

TEST_CASE("training: averaged weights are evaluated and saved, and the weights are trained") {
  const Words averaged = "train.average_decay=0.9";
  const RunFixture fixture;
  fixture.must_train("toy", "plain", "optim.schedule=constant");
  fixture.must_train("toy", "whole", {"optim.schedule=constant", averaged[0]});
  const auto plain = load_checkpoint(fixture.checkpoint("plain")),
             whole = load_checkpoint(fixture.checkpoint("whole"));
  CHECK(plain.file.tensors.size() < whole.file.tensors.size());
  for (const auto& [name, array] : plain.file.tensors) {
    if (name.starts_with("optimizer.")) continue;
    const Array* weights = find_tensor(whole.file, "optimizer.weights." + name);
    REQUIRE_MESSAGE(weights != nullptr, name);
    CHECK_MESSAGE(same_bits(*weights, array), name);
  }
  CHECK(fixture.last_validation("plain")["loss"] != fixture.last_validation("whole")["loss"]);
  const double best = load_checkpoint(fixture.best("whole")).state.best_loss;
  CHECK(fixture.eval("whole")["loss"].get<double>() == doctest::Approx(best).epsilon(1e-12));

  fixture.must_train("toy", "run", {"optim.schedule=constant", averaged[0], "train.steps=17"});
  fixture.must_train("toy", "run", {"optim.schedule=constant", averaged[0], "--resume"});
  check_same_checkpoint(fixture.checkpoint("run"), fixture.checkpoint("whole"));
  check_says(fixture.train("toy", "run", "optim.schedule=constant --resume").err,
             {"train.average_decay"});
}

// Tests the examples of steps by the command line.

// Sentences of 1 to 9 words.
std::string sentences(int lines, const std::string& word) {
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int i = 0; i <= line * 7 % 9; ++i)
      text += fmt::format("{}{}{}", i ? " " : "", word, (line + i) % 10);
    text += "\n";
  }
  return text;
}

TEST_CASE_FIXTURE(RunFixture, "bug: micro-batches of similar lengths had another gradient") {
  for (const std::string part : {"train", "val", "test"}) {
    write(part + ".de", sentences(50, "wort"));
    write(part + ".en", sentences(50, "word"));
  }
  std::vector<Json> whole;
  for (const std::string parts : {"1", "2", "4"}) {
    CAPTURE(parts);
    const std::string run = fmt::format("run-{}", parts);
    must_run({"train", "multi30k", "--quiet", "--out", path(run), "data.path=" + path(),
              "data.vocabulary=300", "model.layers=1", "model.width=16", "model.heads=2",
              "model.feed_forward=16", "model.dropout=0", "train.batch_size=8", "train.steps=8",
              "train.eval_every=8", "train.log_every=1", "train.micro_batches=" + parts});
    const std::vector<Json> lines = metrics(run);
    if (parts == "1") whole = lines;
    REQUIRE(lines.size() == whole.size());
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (const char* field : {"loss", "grad_norm"})
        if (lines[i].contains(field))
          CHECK(lines[i][field].get<double>() ==
                doctest::Approx(whole[i][field].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a training on a billion synthetic examples began and resumed late") {
  const auto begin = std::chrono::steady_clock::now();
  must_train("toy", "whole", "data.examples=1000000000 train.steps=8");
  must_train("toy", "halves", "data.examples=1000000000 train.steps=4");
  must_train("toy", "halves",
             "data.examples=1000000000 train.steps=8 --resume optim.decay_steps=8");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120));
  CHECK(load_checkpoint(checkpoint("whole")).state.position == 64);
  CHECK(load_checkpoint(checkpoint("halves")).state.position == 64);
}

TEST_SUITE_END();

// optim.groups: learning rate and decay of parameters by name.

Words with_groups(const std::string& groups, const Words& more = {}) {
  return more + Words{"optim.groups=" + groups};
}

TEST_CASE_FIXTURE(RunFixture, "groups: the last match sets the learning rate of each optimizer") {
  for (const std::string optimizer : {"adamw", "muon", "schedule_free_adamw", "sgd"}) {
    CAPTURE(optimizer);
    const Words own = "train.eval_every=0 optim.name=" + optimizer;
    const auto groups = with_groups(R"(["* lr=0", "blocks.0.attention lr=1"])", own);
    must_train("toy", optimizer + "-1", groups + "train.steps=1");
    must_train("toy", optimizer + "-3", groups + "train.steps=3");
    const Safetensors before = read_safetensors(checkpoint(optimizer + "-1"));
    for (const auto& [name, after] : read_safetensors(checkpoint(optimizer + "-3")).tensors) {
      if (name.starts_with("optimizer.")) continue;
      CAPTURE(name);
      CHECK(same_bits(after, *find_tensor(before, name)) !=
            name.starts_with("blocks.0.attention."));
    }
    must_train("toy", optimizer + "-factor-1", with_groups(R"(["* lr=1"])", own));
    must_train("toy", optimizer, own);
    check_same_checkpoint(checkpoint(optimizer), checkpoint(optimizer + "-factor-1"));
  }
}

TEST_CASE_FIXTURE(RunFixture, "groups: malformed texts and patterns without match are refused") {
  const auto refused = [&](const std::string& groups, const Words& more = {}) {
    return tapestry::refused(train_here("toy", "run", with_groups(groups, more)));
  };
  for (const std::string group : {"", "*", "* rate=1", "* lr=", "* lr=-1", "* lr=1 lr=2",
                                  "* lr=1e9", "* lr=1 decay=x", "* l2=-1"}) {
    CAPTURE(group);
    check_says(
        refused("[\"" + group + "\"]"),
        {"optim.groups", "expected a pattern of names, then lr=FACTOR, decay=NUMBER or l2=NUMBER"});
  }
  check_says(refused(R"(["bloks.* lr=2"])"),
             {"no trainable parameter of the model matches \"bloks.*\""});
  check_says(refused(R"(["bloks.* l2=2"])"),
             {"no trainable parameter of the model matches \"bloks.*\""});
  check_says(refused(R"(["* decay=0"])", "optim.name=adam"),
             {"sets a decay, which optim.name = \"adam\" does not have; leave out the decay"});
}

}  // namespace
}  // namespace tapestry
