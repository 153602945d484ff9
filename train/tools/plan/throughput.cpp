#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "autograd/buffer_pool.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/step_speed.hpp"
#include "train/run/atomic_file.hpp"
#include "train/tools/plan/plan.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t least_steps = 5;

// Returns the seconds of all batches, estimated from the mean of as many as fit into `seconds`, at
// least two. The first one is counted separately, because it creates buffers.
double measure_evaluation(Task& task, const Dataset& data, const EvaluationOptions& options,
                          double seconds) {
  const std::int64_t batches = evaluation_batches(data, options);
  std::vector<double> times;
  double first = 0, spent = 0;
  for (std::int64_t i = 0; i < batches && (i < 2 || spent < seconds); ++i) {
    const double time = time_once([&] { evaluate_batch(task, data, options, i); });
    spent += time;
    if (i == 0)
      first = time;
    else
      times.push_back(time);
  }
  return times.empty() ? first : first + estimate_of(times).mean * static_cast<double>(batches - 1);
}

// Returns the seconds to write `bytes` bytes, measured with a part of them in an unnamed file; 0 if
// this file cannot be written.
double measure_writing(std::int64_t bytes) try {
  constexpr std::int64_t most = 256 << 20, piece = 1 << 20;
  const std::int64_t written = std::min(most, bytes);
  if (written == 0) return 0;
  const std::string zeros(piece, '\0');
  const double time = time_once([&] {
    File file(".", O_TMPFILE | O_WRONLY, "a file in this folder");
    for (std::int64_t left = written; left > 0; left -= piece)
      file.write(std::string_view(zeros).substr(0, std::min(left, piece)));
    file.sync();
  });
  return time * static_cast<double>(bytes) / static_cast<double>(written);
} catch (const std::runtime_error&) {
  return 0;
}

}  // namespace

Throughput measure_throughput(const Config& config, const ThroughputOptions& options) {
  const std::int64_t before = memory_use().bytes_in_use;
  reset_peak_memory();
  Throughput throughput;
  std::atomic<bool> stop = false;
  Ranks alone;
  std::unique_ptr<Task> task;
  std::optional<Trainer> trainer;
  throughput.begin_s = time_once([&] {
    task = begin_task(config);
    trainer.emplace(*task, config, Run(""), nullptr, stop, alone);
  });
  const StepTimes steps =
      time_steps([&] { trainer->step(); }, {.warm_up = 1,
                                            .least_steps = least_steps,
                                            .most_steps = config[key::steps] - 1,
                                            .least_s = options.seconds,
                                            .longest_first_s = options.seconds});
  const bool lengths_differ = !task->training_data().lengths().empty();
  throughput.first_step_s = steps.first_s;
  throughput.step_s = lengths_differ ? steps.mean_s : steps.median_s;
  throughput.fastest_step_s = steps.fastest_s;
  throughput.slowest_step_s = steps.slowest_s;
  throughput.steps = steps.steps;
  const EvaluationOptions evaluation(config);
  throughput.evaluation_s =
      measure_evaluation(*task, task->validation_data(), evaluation, options.seconds);
  if (task->test_data())
    throughput.test_s = measure_evaluation(*task, *task->test_data(), evaluation, options.seconds);
  throughput.tensor_bytes = memory_use().peak_bytes_in_use - before;
  throughput.checkpoint_s = measure_writing(options.checkpoint_bytes);
  return throughput;
}

RunLength run_length_of(const Config& config) {
  const std::int64_t steps = config[key::steps];
  const auto times = [steps](std::int64_t every) {  // includes the last step
    return every == 0 ? 1 : steps / every + (steps % every != 0);
  };
  const std::int64_t evaluations = times(config[key::eval_every]);
  return {.steps = steps,
          .evaluations = evaluations,
          .checkpoints = evaluations + times(config[key::checkpoint_every]) +
                         (config[key::schedule] == Decay::stable_linear ? 1 : 0)};
}

double seconds_of(const RunLength& run_length, const Throughput& throughput) {
  return throughput.begin_s + throughput.first_step_s +
         static_cast<double>(run_length.steps - 1) * throughput.step_s +
         static_cast<double>(run_length.evaluations) * throughput.evaluation_s + throughput.test_s +
         static_cast<double>(run_length.checkpoints) * throughput.checkpoint_s;
}

}  // namespace tapestry
