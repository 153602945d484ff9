#include <fmt/format.h>

#include <atomic>

#include "autograd/counted.hpp"
#include "autograd/parallel.hpp"
#include "autograd/restore.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/new_folder.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/stop_at_signals.hpp"
#include "train/trainer/trainer.hpp"

// Checks that steps are bitwise reproducible with other numbers of threads and after resuming.
namespace tapestry {
namespace {

// A callback that sets `stop` after a step.
class StopAfter final : public Callback {
 public:
  StopAfter(std::int64_t step, std::atomic<bool>& stop) : step_(step), stop_(stop) {}
  void on_metrics(const MetricsLine& line) override {
    if (line.step >= step_) stop_ = true;
  }

 private:
  std::int64_t step_;
  std::atomic<bool>& stop_;
};

// Returns the first tensor that differs; empty if none does.
std::string difference(const Checksums& one, const Checksums& other) {
  const std::vector<std::string> names = differing_tensors(one, other);
  return names.empty() ? "" : names.front();
}

// Trains from the first step, or from a checkpoint, and writes no files. Returns the checksums of
// the parameters and the optimizer state, and the position in the training data, after the last
// step. Throws Interrupted if `stop` becomes true.
Checksums take_steps(TrainingUnderTest& under_test, std::int64_t steps,
                     const std::atomic<bool>& stop, const Checkpoint* checkpoint = nullptr) {
  const std::unique_ptr<Task> task =
      checkpoint ? make_task(*checkpoint, under_test.config()) : begin_task(under_test.config());
  Ranks alone;
  Trainer trainer(*task, under_test.config(), Run(""), checkpoint, stop, alone);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (stop) throw Interrupted();
    trainer.step();
  }
  Checksums checksums = trainer.checksums();
  checksums["position in the training data"] = fmt::format("{}", trainer.state().position);
  return checksums;
}

// Trains for `steps` steps into a run, and returns its checkpoint. Throws Interrupted if `stop`
// becomes true.
Checkpoint checkpoint_after(TrainingUnderTest& under_test, const Run& run, std::int64_t steps,
                            const std::atomic<bool>& stop) {
  Config config = under_test.config();
  config.set(key::log_every, std::int64_t{1});
  config.set(key::eval_every, std::int64_t{0});
  config.set(key::early_stopping, std::int64_t{0});
  config.set(key::checkpoint_every, std::int64_t{0});
  const std::unique_ptr<Task> task = begin_task(under_test.config());
  std::atomic<bool> is_done = false;
  const StopAtSignals signals(is_done);
  StopAfter until(steps, is_done);
  Ranks alone;
  RunLock lock(run, RunLock::Folder::find);
  Trainer trainer(*task, config, run, nullptr, is_done, alone, &lock);
  trainer.add(until);
  trainer.train();
  if (stop) throw Interrupted();
  return load_checkpoint_metadata(run.checkpoint());
}

bool is_slow(const TrainingUnderTest& under_test) { return under_test.step_s() > 0.15; }

}  // namespace

CheckResult check_threads(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 2 : 5;
  const int many = std::max(2, num_threads());
  const auto steps_on = [&](int threads) {
    const RestoreSetting count(set_num_threads, threads, num_threads());
    return take_steps(under_test, steps, false);
  };
  const Checksums one = steps_on(1);
  const std::string found = difference(one, steps_on(many));
  if (found.empty())
    return {.said = fmt::format("{} steps on 1 and on {} threads are bitwise identical ({})", steps,
                                many, counted(std::ssize(one) - 1, "tensor"))};
  return {.fault = Fault{
              fmt::format("{} differs after {} steps on 1 and on {} threads", found, steps, many),
              "a sum is divided by the number of threads, or threads share what one of them writes",
              "divide sums into pieces that do not depend on the threads: use parallel_for"}};
}

CheckResult check_resume(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 6 : 20, half = steps / 2;
  std::atomic<bool> stop = false;
  const StopAtSignals signals(stop);  // the folder is also removed after a signal
  const ScratchFolder folder("doctor");
  const Checksums whole = take_steps(under_test, steps, stop);
  const Checkpoint checkpoint = checkpoint_after(under_test, Run(folder.path()), half, stop);
  const std::string found = difference(whole, take_steps(under_test, half, stop, &checkpoint));
  if (found.empty())
    return {.said = fmt::format("{} steps and {} + {} resumed steps are bitwise identical ({})",
                                steps, half, half, counted(std::ssize(whole) - 1, "tensor"))};
  return {.fault = Fault{
              fmt::format("{} differs between {} steps and {} + {} resumed steps", found, steps,
                          half, half),
              "a step depends on something that is in no checkpoint: a counter, a random number, a "
              "running mean",
              "derive everything that a step uses from the seed and the step, which a checkpoint "
              "holds"}};
}

}  // namespace tapestry
