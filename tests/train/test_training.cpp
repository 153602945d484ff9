#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/config/keys.hpp"
#include "train/run/run.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

std::function<bool()> after(std::chrono::milliseconds delay) {
  const auto start = std::chrono::steady_clock::now();
  return [=] { return std::chrono::steady_clock::now() - start > delay; };
}

TEST_SUITE_BEGIN("training");

TEST_CASE("training: the same bits on 1, 2 and 3 threads") {
  const RunFixture fixture;
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
        fixture.must_train(config, name + threads, options);
        check_same_run(fixture, name + "1", name + threads);
      }
    }
  }
}

TEST_CASE("training: a run that is killed at any moment and resumed ends as one never stopped") {
  const RunFixture fixture;
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    fixture.must_train(config, config + "-whole");
    const std::string run = config + "-killed",
                      metrics = fixture.folder.path(run + "/metrics.jsonl");
    const auto writes_checkpoint = [folder = fixture.folder.path(run)] {
      std::error_code missing;
      for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
        if (const std::string name = entry.path().filename().string();
            name.ends_with(".tmp") && name.find("checkpoint.safetensors") != name.npos)
          return true;
      return false;
    };
    // Before there is a folder, as metrics appear, in a checkpoint's writing, and then anywhere.
    std::vector<std::function<bool()>> moments = {
        after(std::chrono::milliseconds(0)),
        when_holds(fixture.folder.path(run + "/config.toml")),
        when_holds(metrics),
        writes_checkpoint,
        when_holds(metrics, 900),
        writes_checkpoint,
        when_holds(metrics, 1500)};
    int killed = 0;
    const auto kill_at = [&](const std::function<bool()>& moment) {
      std::vector<std::string> more;
      if (std::filesystem::exists(fixture.folder.path(run))) more = {"--resume"};
      killed += fixture.train(config, run, more, {.when = moment}).status == 128 + SIGKILL;
    };
    for (const auto& moment : moments) kill_at(moment);
    for (int delay = 12; delay < 60; delay += 3) kill_at(after(std::chrono::milliseconds(delay)));
    CHECK(killed >= 3);
    fixture.must_train(config, run, {"--resume"});
    check_same_run(fixture, config + "-whole", run);
    CHECK(!writes_checkpoint());                    // nothing is left half written
    fixture.must_train(config, run, {"--resume"});  // again, when there is nothing left to do
    check_same_run(fixture, config + "-whole", run);
  }
}

TEST_CASE(
    "training: Ctrl-C, SIGTERM and SIGHUP write a checkpoint, exit 130, and resuming equals") {
  const RunFixture fixture;
  fixture.must_train("toy", "whole", {"train.checkpoint_every=0"});
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const std::string run = fmt::format("stopped-{}", signal);
    // No checkpoint is due before the end: the one found is the signal's.
    Finished stopped = fixture.train(
        "toy", run, {"train.checkpoint_every=0", "train.steps=100000"},
        {.when = when_holds(fixture.folder.path(run + "/metrics.jsonl")), .signal = signal});
    CHECK(stopped.status == 130);
    CHECK(stopped.err.empty());
    check_says(stopped.out, {"stopped after step", "--resume"});
    CHECK(load_checkpoint(fixture.checkpoint(run)).state.step > 0);
  }

  // The schedule depends on train.steps, so what is compared is stopped with the same.
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<std::string> more = {"train.checkpoint_every=0"};
    if (std::filesystem::exists(fixture.folder.path("again"))) more.push_back("--resume");
    const Finished stopped = fixture.train(
        "toy", "again", more,
        {.when = attempt % 2 == 0 ? when_holds(fixture.folder.path("again/metrics.jsonl"))
                                  : after(std::chrono::milliseconds(9 + attempt)),
         .signal = SIGINT});
    if (stopped.status == 0) break;
    CHECK(stopped.status == 130);  // also of a process that died of SIGINT before it could stop
  }
  fixture.must_train("toy", "again", {"--resume", "train.checkpoint_every=0"});
  check_same_run(fixture, "whole", "again");
}

TEST_CASE("training: N steps are k steps and the rest") {
  const RunFixture fixture;
  const auto to = [](const char* steps) {
    return std::vector<std::string>{"optim.schedule=constant", std::string("train.steps=") + steps};
  };
  fixture.must_train("toy", "whole", to("40"));
  fixture.must_train("toy", "parts", to("10"));
  for (const char* steps : {"30", "40"}) {
    std::vector<std::string> options = to(steps);
    options.push_back("--resume");
    fixture.must_train("toy", "parts", options);
  }
  check_same_run(fixture, "whole", "parts");
}

TEST_CASE("training: evaluating, logging or saving more often changes nothing") {
  const RunFixture fixture;
  for (const std::string config : {"toy", "vae"}) {  // with dropout, and with noise of its own
    CAPTURE(config);
    fixture.must_train(config, config, {"train.eval_every=0"});
    fixture.must_train(config, config + "-often",
                       {"train.eval_every=1", "train.log_every=1", "train.checkpoint_every=1"});
    const auto a = load_checkpoint(fixture.checkpoint(config));
    const auto b = load_checkpoint(fixture.checkpoint(config + "-often"));
    for (std::size_t i = 0; i < a.file.tensors.size(); ++i)
      CHECK(same_bits(a.file.tensors[i].second, b.file.tensors[i].second));
    CHECK(fixture.metrics(config + "-often").size() == (config == "vae" ? 81 : 80));  // and a test
    CHECK(untimed({fixture.last_validation(config + "-often")}) ==
          untimed({fixture.last_validation(config)}));
  }
}

TEST_CASE("bug: a checkpoint was written at every step, whatever train.checkpoint_every said") {
  const RunFixture fixture;
  const Finished finished =
      fixture.train("toy", "run", {"train.checkpoint_every=0", "train.steps=1000"},
                    {.when = when_holds(fixture.folder.path("run/metrics.jsonl"), 1000)});
  REQUIRE(finished.status == 128 + SIGKILL);
  CHECK(!std::filesystem::exists(fixture.checkpoint("run")));
}

TEST_CASE("training: micro-batches give the loss and gradient of the whole batch") {
  const RunFixture fixture;
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
      fixture.must_train(config, config + parts, options);
      const std::vector<Json> lines = fixture.metrics(config + parts);
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

TEST_CASE("training: every target weighs the same, however unequally micro-batches hold them") {
  const RunFixture fixture;
  for (const std::string name : {"toy", "text"}) {
    CAPTURE(name);
    std::vector<Json> whole;
    for (const std::string parts : {"1", "2", "4"}) {
      CAPTURE(parts);
      const Config config = load_config(fixture.folder.path(name + ".toml"),
                                        {"model.dropout=0", "train.steps=5", "train.log_every=1",
                                         "train.batch_size=4", "train.micro_batches=" + parts});
      UnevenTask task(config);
      const std::string run = name + parts;
      std::filesystem::create_directories(fixture.folder.path(run));
      const std::atomic<bool> never = false;
      RunLock lock(Run(fixture.folder.path(run)), RunLock::Folder::find);
      Ranks alone;
      Trainer trainer(task, config, Run(fixture.folder.path(run)), nullptr, never, alone, &lock);
      trainer.add(record_metrics(lock));
      trainer.train();
      const std::vector<Json> lines = fixture.metrics(run);
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
  const RunFixture fixture;
  for (const std::string config : {"toy", "text"}) {
    fixture.must_train(config, config + "-kept");
    fixture.must_train(config, config + "-computed", {"train.checkpoint_activations=true"});
    check_same_run(fixture, config + "-kept", config + "-computed");
  }
}

TEST_CASE("training: bf16 rounds the operands of products, and learns as well") {
  const RunFixture fixture;
  fixture.must_train("text", "f32");
  fixture.must_train("text", "bf16", {"train.precision=bf16"});
  const double f32 = fixture.metrics("f32").back()["loss"],
               bf16 = fixture.metrics("bf16").back()["loss"];
  CHECK(f32 != bf16);
  CHECK(std::abs(f32 - bf16) < 0.02);
  CHECK(fixture.eval("bf16")["loss"] == bf16);
  // Other bits: a run goes on in the precision it began with.
  CHECK(fixture.train("text", "f32", {"train.precision=bf16", "--resume"}).status == 2);
}

TEST_CASE("training: a loss that is not finite ends the run, and what was saved before stays") {
  const RunFixture fixture;
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    const Finished finished =
        fixture.train(config, config,
                      {"optim.name=sgd", "optim.learning_rate=1000", "train.checkpoint_every=1",
                       "optim.warmup_steps=1000000", "train.steps=1000000", "optim.momentum=1",
                       "optim.clip_norm=0", "train.eval_every=0"});
    CHECK(finished.status == 1);
    CHECK(lines_of(finished.err).size() == 1);
    check_says(finished.err, {"tapestry: step ", " is not finite: ", "training examples ",
                              "the checkpoints in " + fixture.folder.path(config)});
    CHECK(load_checkpoint(fixture.checkpoint(config)).state.step > 0);
  }
}

TEST_CASE("bug: an evaluation that was not finite was no failure") {
  const RunFixture fixture;
  const Finished finished =
      fixture.train("toy", "run",
                    {"optim.name=sgd", "optim.learning_rate=1000", "optim.schedule=constant",
                     "optim.warmup_steps=0", "optim.clip_norm=0", "train.steps=3"});
  CHECK(finished.status == 1);
  check_says(finished.err, {"step 3: ", "validation loss", ": the output of "});
  CHECK(!std::filesystem::exists(fixture.best("run")));
}

TEST_CASE("training: check_finite names the step, the op and its module") {
  const RunFixture fixture;
  const Finished finished =
      fixture.train("toy", "run",
                    {"optim.name=sgd", "optim.learning_rate=1000", "optim.clip_norm=0",
                     "train.check_finite=true", "train.steps=1000000", "optim.momentum=1"});
  CHECK(finished.status == 1);
  CHECK(lines_of(finished.err).size() == 1);
  check_says(finished.err,
             {"tapestry: step ", ": the output of ", " in blocks.0.attention",
              " is not finite: ", "; training examples ", fixture.folder.path("run")});
}

TEST_CASE("training: the KL term's weight rises in warm-up, for which no reported loss waits") {
  const RunFixture fixture;
  const auto objective = [&](double beta, std::int64_t step, bool training) {
    const std::vector<std::string> overrides{"model.kl_warmup_steps=10",
                                             fmt::format("model.beta={}", beta)};
    const Config config = load_config(fixture.folder.path("vae.toml"), overrides);
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
  const RunFixture fixture;
  const double m = 28 * 28, n = 2;
  const auto objective = [&](double weight) {  // and recon and kl
    const Config config = load_config(fixture.folder.path("vae.toml"),
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

TEST_CASE("training: what is learned is learned") {
  const RunFixture fixture;
  fixture.must_train(
      "toy", "run",
      {"data.kind=copy", "train.steps=300", "train.batch_size=32", "optim.learning_rate=1e-2",
       "model.width=32", "model.dropout=0", "data.length=3", "train.eval_every=100"});
  CHECK(fixture.eval("run")["exact_match"] == 1.0);
  const Finished sample = tapestry_run({"sample", fixture.folder.path("run"), "--prompt", "310"});
  CHECK(sample.out == "310>310  right\n");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
