#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
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

TEST_CASE_FIXTURE(RunFixture, "training: the same bits on 1, 2 and 3 threads") {
  // Large enough that sums are cut into pieces and loops into shares.
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

TEST_CASE_FIXTURE(RunFixture, "training: a run killed at any moment resumes as if never killed") {
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
    // Before there is a folder, as metrics appear, in a checkpoint's writing, and then anywhere.
    std::vector<std::function<bool()>> moments = {after(std::chrono::milliseconds(0)),
                                                  when_holds(path(run + "/config.toml")),
                                                  when_holds(metrics),
                                                  writes_checkpoint,
                                                  when_holds(metrics, 900),
                                                  writes_checkpoint,
                                                  when_holds(metrics, 1500)};
    int killed = 0;
    const auto kill_at = [&](const std::function<bool()>& moment) {
      Words more;
      if (has(run)) more = {"--resume"};
      killed += train(config, run, more, {.when = moment}).status == 128 + SIGKILL;
    };
    for (const auto& moment : moments) kill_at(moment);
    for (int delay = 12; delay < 60; delay += 3) kill_at(after(std::chrono::milliseconds(delay)));
    CHECK(killed >= 3);
    must_train(config, run, "--resume");
    check_same_run(*this, config + "-whole", run);
    CHECK(!writes_checkpoint());          // nothing is left half written
    must_train(config, run, "--resume");  // again, when there is nothing left to do
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

  // The schedule depends on train.steps, so what is compared is stopped with the same.
  for (int attempt = 0; attempt < 20; ++attempt) {
    Words more = "train.checkpoint_every=0";
    if (has("again")) more.push_back("--resume");
    const Finished stopped =
        train("toy", "again", more,
              {.when = attempt % 2 == 0 ? when_holds(path("again/metrics.jsonl"))
                                        : after(std::chrono::milliseconds(9 + attempt)),
               .signal = SIGINT});
    if (stopped.status == 0) break;
    CHECK(stopped.status == 130);  // also of a process that died of SIGINT before it could stop
  }
  must_train("toy", "again", "--resume train.checkpoint_every=0");
  check_same_run(*this, "whole", "again");
}

TEST_CASE_FIXTURE(RunFixture, "training: N steps are k steps and the rest") {
  const auto to = [](const std::string& steps) {
    return Words("optim.schedule=constant train.steps=" + steps);
  };
  must_train("toy", "whole", to("40"));
  must_train("toy", "parts", to("10"));
  for (const char* steps : {"30", "40"}) {
    must_train("toy", "parts", to(steps) + "--resume");
  }
  check_same_run(*this, "whole", "parts");
}

TEST_CASE_FIXTURE(RunFixture, "training: evaluating, logging, saving more often changes nothing") {
  for (const std::string config : {"toy", "vae"}) {  // with dropout, and with noise of its own
    CAPTURE(config);
    must_train(config, config, "train.eval_every=0");
    must_train(config, config + "-often",
               "train.eval_every=1 train.log_every=1 train.checkpoint_every=1");
    const auto a = load_checkpoint(checkpoint(config));
    const auto b = load_checkpoint(checkpoint(config + "-often"));
    for (std::size_t i = 0; i < a.file.tensors.size(); ++i)
      CHECK(same_bits(a.file.tensors[i].second, b.file.tensors[i].second));
    CHECK(metrics(config + "-often").size() == (config == "vae" ? 81 : 80));  // and a test
    CHECK(untimed({last_validation(config + "-often")}) == untimed({last_validation(config)}));
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: every step wrote a checkpoint despite checkpoint_every") {
  REQUIRE(train("toy", "run", "train.checkpoint_every=0 train.steps=1000",
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

TEST_CASE_FIXTURE(RunFixture, "training: targets weigh the same in unequal micro-batches") {
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

TEST_CASE_FIXTURE(RunFixture, "training: checkpointed activations give the same run") {
  for (const std::string config : {"toy", "text"}) {
    must_train(config, config + "-kept");
    must_train(config, config + "-computed", "train.checkpoint_activations=true");
    check_same_run(*this, config + "-kept", config + "-computed");
  }
}

TEST_CASE_FIXTURE(RunFixture, "training: bf16 rounds operands of products, and learns as well") {
  must_train("text", "f32");
  must_train("text", "bf16", "train.precision=bf16");
  const double f32 = metrics("f32").back()["loss"], bf16 = metrics("bf16").back()["loss"];
  CHECK(f32 != bf16);
  CHECK(std::abs(f32 - bf16) < 0.02);
  CHECK(eval("bf16")["loss"] == bf16);
  // Other bits: a run goes on in the precision it began with.
  CHECK(train("text", "f32", "train.precision=bf16 --resume").status == 2);
}

TEST_CASE_FIXTURE(RunFixture, "training: a non-finite loss ends the run; what was saved stays") {
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

TEST_CASE_FIXTURE(RunFixture, "bug: an evaluation that was not finite was no failure") {
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

TEST_CASE_FIXTURE(RunFixture, "training: the KL weight warms up, but not in reported losses") {
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

TEST_CASE_FIXTURE(RunFixture, "training: a weight is of means, and m/n of them is the ELBO") {
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

TEST_CASE_FIXTURE(RunFixture, "training: what is learned is learned") {
  must_train("toy", "run",
             "data.kind=copy train.steps=300 train.batch_size=32 optim.learning_rate=1e-2 "
             "model.width=32 model.dropout=0 data.length=3 train.eval_every=100");
  CHECK(eval("run")["exact_match"] == 1.0);
  CHECK(tapestry_run("sample {} --prompt 310", path("run")).out == "310>310  right\n");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
