#include <fmt/format.h>

#include <atomic>
#include <cstring>
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

// Whether the same steps lead to the same bits, by whole trainings into a folder that is removed.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> signalled = false;

// Holds the runs of one check and removes them afterwards, also where Ctrl-C ends it: trainings
// stop after a step then.
class RunsOfCheck final {
 public:
  RunsOfCheck() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      handlers_[signal] = handle_signal(signal, [](int) { signalled = true; });
  }
  ~RunsOfCheck() {
    for (const auto& [signal, handler] : handlers_) std::signal(signal, handler);
  }
  RunsOfCheck(const RunsOfCheck&) = delete;
  RunsOfCheck& operator=(const RunsOfCheck&) = delete;

  // Returns a new run.
  Run add(const std::string& name) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path);
    return Run(path.string());
  }

 private:
  ScratchFolder folder_{"doctor"};
  std::map<int, SignalHandler> handlers_;
};

// Stops a training after a step.
class StopAfter final : public Callback {
 public:
  explicit StopAfter(std::int64_t step) : step_(step) {}
  void on_metrics(const MetricsLine& line) override { stop = signalled || line.step >= step_; }

  std::atomic<bool> stop = false;

 private:
  std::int64_t step_;
};

// Nothing but steps and one checkpoint.
Config without_evaluations(Config config) {
  config.set(key::log_every, std::int64_t{1});
  config.set(key::eval_every, std::int64_t{0});
  config.set(key::early_stopping, std::int64_t{0});
  config.set(key::checkpoint_every, std::int64_t{0});
  return config;
}

// Trains until after this step, from the first one on or from the run's checkpoint.
void train_until(TrainingUnderTest& under_test, const Run& run, std::int64_t step) {
  const Config config = without_evaluations(under_test.config());
  std::optional<Checkpoint> checkpoint = latest_checkpoint(run);
  const std::unique_ptr<Task> task =
      checkpoint ? make_task(*checkpoint, config) : under_test.fresh_task();
  StopAfter until(step);
  Ranks alone;
  RunLock lock(run, RunLock::Folder::find);
  Trainer trainer(*task, config, run, checkpoint ? &*checkpoint : nullptr, until.stop, alone,
                  &lock);
  trainer.add(until);
  checkpoint.reset();
  trainer.train();
  if (signalled) throw Interrupted();
}

// The first array that two runs' checkpoints do not share bit for bit; empty where there is none.
std::string difference(const Run& one, const Run& other, std::int64_t& arrays) {
  const Checkpoint a = load_checkpoint(one.checkpoint()), b = load_checkpoint(other.checkpoint());
  arrays = std::ssize(a.file.tensors);
  if (a.state.step != b.state.step || a.file.tensors.size() != b.file.tensors.size())
    return fmt::format("what they keep after {} and {} steps", a.state.step, b.state.step);
  if (a.state.position != b.state.position)
    return fmt::format("the place in the data, {} and {}", a.state.position, b.state.position);
  for (std::size_t i = 0; i < a.file.tensors.size(); ++i) {
    const auto& [name, x] = a.file.tensors[i];
    const auto& [other_name, y] = b.file.tensors[i];
    if (name != other_name || x.bytes() != y.bytes() ||
        std::memcmp(x.raw(), y.raw(), x.bytes()) != 0)
      return name;
  }
  return "";
}

bool is_slow(const TrainingUnderTest& under_test) { return under_test.step_s() > 0.15; }

}  // namespace

CheckResult check_threads(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 2 : 5;
  const int many = std::max(2, num_threads());
  const RunsOfCheck runs;
  const Run one = runs.add("one"), all = runs.add("all");
  {
    const RestoreSetting threads(set_num_threads, 1, num_threads());
    train_until(under_test, one, steps);
  }
  {
    const RestoreSetting threads(set_num_threads, many, num_threads());
    train_until(under_test, all, steps);
  }
  std::int64_t arrays = 0;
  const std::string found = difference(one, all, arrays);
  if (found.empty())
    return {.said = fmt::format("{} steps on 1 and on {} threads: the same bits of {} arrays",
                                steps, many, arrays)};
  return {.fault = Fault{
              fmt::format("after {} steps on 1 and on {} threads, {} differs", steps, many, found),
              "a sum is cut by the number of threads, or threads share what one of them writes",
              "cut sums into pieces that do not depend on the threads: parallel_for does"}};
}

CheckResult check_resume(TrainingUnderTest& under_test) {
  const std::int64_t steps = is_slow(under_test) ? 6 : 20;
  const RunsOfCheck runs;
  const Run whole = runs.add("whole"), resumed = runs.add("resumed");
  train_until(under_test, whole, steps);
  train_until(under_test, resumed, steps / 2);
  train_until(under_test, resumed, steps);
  std::int64_t arrays = 0;
  const std::string found = difference(whole, resumed, arrays);
  if (found.empty())
    return {.said = fmt::format("{} steps are {} and {} more: the same bits of {} arrays", steps,
                                steps / 2, steps - steps / 2, arrays)};
  return {
      .fault = Fault{
          fmt::format("{} steps at once, and {} with {} more by a resumed run: {} differs", steps,
                      steps / 2, steps - steps / 2, found),
          "something that a step depends on is in no checkpoint: a count, a draw, a running mean",
          "derive it from the seed and the step, which a checkpoint keeps"}};
}

}  // namespace tapestry
