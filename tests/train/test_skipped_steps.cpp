#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/trainer.hpp"

// Tests steps whose gradient is not finite or jumps: skipped and counted, or explained.
namespace tapestry {
namespace {

constexpr std::int64_t poisoned_example = 17;

// The images of a shipped task, one of which has an infinite pixel.
class PoisonedImages final : public Dataset {
 public:
  explicit PoisonedImages(const Dataset& images) : images_(images) {}
  std::int64_t size() const override { return images_.size(); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch = images_.batch(examples);
    batch.inputs = batch.inputs.clone();
    const std::int64_t width = batch.inputs.size() / std::ssize(examples);
    for (std::size_t i = 0; i < examples.size(); ++i)
      if (examples[i] == poisoned_example)
        batch.inputs.mutable_values<float>()[i * width] = std::numeric_limits<float>::infinity();
    return batch;
  }

 private:
  const Dataset& images_;
};

class PoisonedTask final : public Task {
 public:
  explicit PoisonedTask(const Config& config)
      : task_(make_task({config})), images_(task_->training_data()) {}
  Module& model() override { return task_->model(); }
  const Dataset& training_data() override { return images_; }
  const Dataset& validation_data() override { return task_->validation_data(); }
  Loss loss(const Batch& batch, const Pass& pass) override { return task_->loss(batch, pass); }
  void add_derived_metrics(Metrics& metrics) const override { task_->add_derived_metrics(metrics); }

 private:
  std::unique_ptr<Task> task_;
  PoisonedImages images_;
};

Config images_config(const Words& more) {
  return parse_config(vae_toml, "vae.toml",
                      "train.steps=20 train.log_every=1 train.micro_batches=7 optim.name=adam "
                      "train.average_decay=0.9" +
                          more);
}

// Trains into a folder, from its checkpoint if it has one.
TrainingState train_poisoned(const Config& config, const Run& run) {
  PoisonedTask task(config);
  const std::atomic<bool> never = false;
  Ranks alone;
  RunLock lock(run, RunLock::Folder::find);
  const std::optional<Checkpoint> checkpoint = latest_checkpoint(run);
  Trainer trainer(task, config, run, checkpoint ? &*checkpoint : nullptr, never, alone, &lock);
  trainer.add(record_metrics(lock));
  trainer.train();
  return trainer.state();
}

TEST_SUITE_BEGIN("bad steps");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "skipped steps: infinite data change no parameter, and are counted") {
  const Run run(path());
  // 30 images, 7 per step: the infinite one occurs once per epoch, four times in 20 steps.
  const TrainingState state = train_poisoned(images_config({"train.max_bad_steps=9"}), run);
  CHECK(state.step == 20);
  CHECK(state.position == 140);
  CHECK(state.skipped.count >= 4);
  CHECK(state.skipped.count <= 5);
  std::int64_t counted = 0;
  for (const Json& line : metrics_of(run.folder())) {
    if (line["split"] != "train") continue;
    counted += line["grad_norm"].is_null();
    CHECK(line["bad_steps"] == counted);
  }
  CHECK(counted == state.skipped.count);
  for (const auto& [name, tensor] : load_checkpoint(run.checkpoint()).file.tensors)
    CHECK_MESSAGE(std::isfinite(sum(Tensor(tensor)).item()), name);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "skipped steps: skipping changes only count, position and time") {
  const Config config = images_config({"train.max_bad_steps=9"});
  PoisonedTask task(config);
  const std::atomic<bool> never = false;
  Ranks alone;
  Trainer trainer(task, config, Run(path()), nullptr, never, alone);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const Checksums before = trainer.checksums();
    const std::int64_t bad = trainer.state().skipped.count;
    trainer.step();
    CHECK((trainer.checksums() == before) == (trainer.state().skipped.count > bad));
    CHECK(trainer.state().step == step);
    CHECK(trainer.state().position == 7 * step);
  }
  CHECK(trainer.state().skipped.count > 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "skipped steps: a run resumed after some has the same bits") {
  const std::vector<Words> kinds = {
      "train.max_bad_steps=9", "train.max_bad_steps=60 train.bad_step_factor=1.2 train.steps=90"};
  for (const Words& kind : kinds) {
    CAPTURE(kind.back());
    const Run whole(path(fmt::format("whole-{}", kind.size()))),
        parted(path(fmt::format("parted-{}", kind.size())));
    for (const Run& run : {whole, parted}) fs::create_directory(run.folder());
    const Config config = images_config(kind);
    const TrainingState state = train_poisoned(config, whole);
    CHECK(state.skipped.count >= 4);
    CHECK(state.skipped.count < state.step / 2);
    const std::int64_t steps = config[key::steps];
    for (const std::int64_t until : {steps * 2 / 3, steps - 3, steps}) {
      CHECK(
          train_poisoned(images_config(kind + fmt::format("train.steps={}", until)), parted).step ==
          until);
    }
    const auto a = load_checkpoint(whole.checkpoint()), b = load_checkpoint(parted.checkpoint());
    CHECK(a.state.skipped.count == b.state.skipped.count);
    CHECK(a.state.skipped.norms == b.state.skipped.norms);
    CHECK(a.state.skipped.norms.size() == (kind.size() == 1 ? 0 : norms_compared));
    check_same_checkpoint(whole.checkpoint(), parted.checkpoint());
  }
}

TEST_CASE("skipped steps: one more than allowed ends the run, and names the data") {
  for (const std::string most : {"0", "1"}) {
    CAPTURE(most);
    const TemporaryFolder folder;
    std::string message;
    try {
      train_poisoned(images_config({"train.max_bad_steps=" + most}), Run(folder.path()));
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    check_says(message, {"step ", "the loss is ",
                         "the data are not finite: training example 17; micro-batch ",
                         " of 7: training examples 17;", " has no checkpoint yet"});
    CHECK((contains(message, "after 1 skipped step (train.max_bad_steps)")) == (most == "1"));
    CHECK(lines_of(message).size() == 1);
  }
}

TEST_CASE("skipped steps: a norm is compared with the median of the previous fifty") {
  const Config config = images_config({"train.max_bad_steps=3", "train.bad_step_factor=2"});
  TrainingState::SkippedSteps state;
  for (int i = 0; i < 49; ++i) {
    CHECK(fault_of_step(1, 1e9, config, state).empty());
    remember_norm(i % 2 == 0 ? 1 : 3, config, state);
  }
  CHECK(fault_of_step(1, 1e9, config, state).empty());
  remember_norm(2, config, state);  // 25 ones, a two, 24 threes
  CHECK(fault_of_step(1, 4, config, state).empty());
  check_says(fault_of_step(1, 4.001, config, state),
             {"the gradient norm is 4.001, above 2 times the median of the last 50, 2"});
  CHECK(!fault_of_step(NAN, 1, config, state).empty());
  CHECK(!fault_of_step(1, INFINITY, config, state).empty());
  for (int i = 0; i < 60; ++i) remember_norm(5, config, state);
  CHECK(state.norms == std::vector<double>(50, 5.0));
  TrainingState::SkippedSteps off;
  remember_norm(1, images_config({}), off);
  CHECK(off.norms.empty());
  CHECK_ERROR(
      check_training_keys(images_config({"train.max_bad_steps=3", "train.bad_step_factor=0.5"}), 1),
      "train.bad_step_factor", "skips normal steps");
  CHECK_ERROR(images_config({"train.bad_step_factor=2"}), "train.bad_step_factor",
              "is not used with", "train.max_bad_steps");
}

// --- finite micro-batches whose sum is not finite ---

class HugeSlope final : public Module {
 public:
  void fields(FieldVisitor& visit) override { visit("slope", slope); }
  Parameter slope{Array::of<float>({0}, {1}), Role::weight};
};

TEST_CASE("explanation: if every op is finite, the largest gradients are named") {
  struct Huge final : Task {
    explicit Huge(std::unique_ptr<Task> of) : task(std::move(of)) {}
    Module& model() override { return slope; }
    const Dataset& training_data() override { return task->training_data(); }
    const Dataset& validation_data() override { return task->validation_data(); }
    Loss loss(const Batch& batch, const Pass&) override {
      const Tensor objective = sum(slope.slope * 1e38);
      return {.objective = objective, .averages = {{"loss", {objective.item(), batch.count}}}};
    }
    std::unique_ptr<Task> task;
    HugeSlope slope;
  };
  const Config config = parse_config(
      toy_toml, "toy.toml", {"train.micro_batches=8", "train.batch_size=8", "train.steps=3"});
  Huge task(make_task({config}));
  StepInputs parts{.task = task, .config = config};
  for (int i = 0; i < 8; ++i) {
    const std::int64_t example[] = {i};
    parts.batches.push_back(task.training_data().batch(example));
  }
  parts.count = 0.5;  // each micro-batch's gradient is 2e38, and their sum overflows
  task.model().parameters();
  Ranks alone;
  const std::string text = explain_step(parts, alone);
  check_says(text,
             {"every op of each micro-batch is finite", "2e+38 of slope", "training examples "});
  task.slope.slope.value().mutable_values<float>()[0] = NAN;
  check_says(explain_step(parts, alone), {"parameter slope is not finite"});
}

TEST_CASE_FIXTURE(RunFixture, "training: a huge learning rate is explained, also in evaluation") {
  const Words wild =
      "optim.name=sgd optim.learning_rate=1000 optim.schedule=constant optim.warmup_steps=0 "
      "optim.clip_norm=0";
  const auto failed = [&](const std::string& run, const Words& more) {
    const Finished finished = train("toy", run, wild + more);
    check_fails(finished, {}, 1);
    return finished;
  };
  check_says(failed("run", {"train.steps=3"}).err,
             {"step 3: the validation loss is ", ": the output of ", " is not finite: "});
  const Finished left_out =
      failed("left-out", {"train.steps=100", "train.max_bad_steps=2", "train.eval_every=0"});
  check_says(left_out.out, {"skipped: the loss is ", "(skipped step 1 of at most 2)",
                            "(skipped step 2 of at most 2)"});
  check_says(left_out.err, {"after 2 skipped steps (train.max_bad_steps): ", "the output of "});
}

TEST_CASE_FIXTURE(RunFixture,
                  "skipped steps: a checkpoint with impossible count or norms is refused") {
  must_train("toy", "run", "train.steps=3");
  const auto refused = [&](const std::string& name, const std::string& value) {
    Safetensors file = read_safetensors(checkpoint("run"));
    file.metadata[name] = value;
    file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(path("forged"), file);
    return message_of([&] { load_checkpoint(path("forged")); });
  };
  for (const std::string norms : {"1 x", "-1", "nan", "1e999"})
    check_says(refused("gradient_norms", norms),
               {"forged: metadata gradient_norms: expected at most 1000 numbers"});
  check_says(refused("bad_steps", "4"), {"forged: metadata bad_steps = 4: expected at most 3"});
  CHECK(refused("bad_steps", "3").empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
