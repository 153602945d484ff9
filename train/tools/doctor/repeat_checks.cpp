#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "autograd/parallel.hpp"
#include "autograd/restore.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/signals.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/trainer.hpp"

// Whether the same steps lead to the same bits: on other numbers of threads, and when resumed.
namespace tapestry {
namespace {

std::atomic<bool> signaled = false;

// While it lives, a signal stops a training after its step, so that files can be removed.
class StopOnSignals final {
 public:
  StopOnSignals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      handlers_[signal] = handle_signal(signal, [](int) { signaled = true; });
  }
  ~StopOnSignals() {
    for (const auto& [signal, handler] : handlers_) std::signal(signal, handler);
  }
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  std::map<int, SignalHandler> handlers_;
};

// Sets `stop` after a step.
class StopAfter final : public Callback {
 public:
  explicit StopAfter(std::int64_t step) : step_(step) {}
  void on_metrics(const MetricsLine& line) override { stop = signaled || line.step >= step_; }

  std::atomic<bool> stop = false;

 private:
  std::int64_t step_;
};

// The parameters and the optimizer's state after some steps, and the examples read.
struct State {
  Checksums tensors{};
  std::int64_t position = 0;
};

// Returns what differs between two states; empty if nothing does.
std::string difference(const State& one, const State& other) {
  if (one.tensors.size() != other.tensors.size()) return "the number of tensors";
  if (one.position != other.position) return "the position in the training data";
  const std::vector<std::string> names = differing_tensors(one.tensors, other.tensors);
  return names.empty() ? "" : names.front();
}

// Takes steps from the first on, or from a checkpoint, and keeps nothing.
State take_steps(TrainingUnderTest& under_test, std::int64_t steps,
                 const Checkpoint* checkpoint = nullptr) {
  const std::unique_ptr<Task> task =
      checkpoint ? make_task(*checkpoint, under_test.config()) : under_test.fresh_task();
  std::atomic<bool> stop = false;
  Ranks alone;
  Trainer trainer(*task, under_test.config(), Run(""), checkpoint, stop, alone);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (signaled) throw Interrupted();
    trainer.step();
  }
  return {trainer.checksums(), trainer.state().position};
}

// Trains for some steps into a run, and returns its checkpoint.
Checkpoint checkpoint_after(TrainingUnderTest& under_test, const Run& run, std::int64_t steps) {
  Config config = under_test.config();
  config.set(key::log_every, std::int64_t{1});
  config.set(key::eval_every, std::int64_t{0});
  config.set(key::early_stopping, std::int64_t{0});
  config.set(key::checkpoint_every, std::int64_t{0});
  const std::unique_ptr<Task> task = under_test.fresh_task();
  StopAfter until(steps);
  Ranks alone;
  RunLock lock(run, RunLock::Folder::find);
  Trainer trainer(*task, config, run, nullptr, until.stop, alone, &lock);
  trainer.add(until);
  trainer.train();
  if (signaled) throw Interrupted();
  return load_checkpoint(run.checkpoint());
}

bool is_slow(const TrainingUnderTest& under_test) { return under_test.step_s() > 0.15; }

}  // namespace

CheckResult check_threads(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 2 : 5;
  const int many = std::max(2, num_threads());
  const auto steps_on = [&](int threads) {
    const RestoreSetting count(set_num_threads, threads, num_threads());
    return take_steps(under_test, steps);
  };
  const State one = steps_on(1);
  const std::string found = difference(one, steps_on(many));
  if (found.empty())
    return {.said = fmt::format("{} steps on 1 and on {} threads: the same bits in {} tensors",
                                steps, many, one.tensors.size())};
  return {.fault = Fault{
              fmt::format("after {} steps on 1 and on {} threads, {} differs", steps, many, found),
              "a sum is divided by the number of threads, or threads share what one of them writes",
              "divide sums into pieces that do not depend on the threads: use parallel_for"}};
}

CheckResult check_resume(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 6 : 20, half = steps / 2;
  const StopOnSignals signals;
  const ScratchFolder folder("doctor");
  const State whole = take_steps(under_test, steps);
  const Checkpoint checkpoint = checkpoint_after(under_test, Run(folder.path()), half);
  const std::string found = difference(whole, take_steps(under_test, half, &checkpoint));
  if (found.empty())
    return {.said = fmt::format("{} steps are {} and {} resumed: the same bits in {} tensors",
                                steps, half, half, whole.tensors.size())};
  return {.fault = Fault{
              fmt::format("{} steps at once, and {} with {} more by a resumed run: {} differs",
                          steps, half, half, found),
              "a step depends on something that is in no checkpoint: a counter, a random number, a "
              "running mean",
              "derive it from the seed and the step, which a checkpoint holds"}};
}

}  // namespace tapestry
