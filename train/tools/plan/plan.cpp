#include "train/tools/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/buffer_pool.hpp"
#include "autograd/counted.hpp"
#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/trainer/begin_task.hpp"

namespace tapestry {
namespace {

std::string line(const std::string& name, const std::string& value,
                 const std::string& remark = "") {
  return fmt::format("  {:<22} {:>10}{}{}\n", name, value, remark.empty() ? "" : "   ", remark);
}

std::string show_parameters(const MemoryPlan& memory) {
  std::string text = fmt::format("parameters {}{}\n", memory.parameters,
                                 memory.trained == memory.parameters
                                     ? ""
                                     : fmt::format(", {} of them trained", memory.trained));
  for (const ModuleSize& module : memory.modules)
    text += line(module.name, count_text(module.parameters),
                 fmt::format("{:.1f} %", 100.0 * static_cast<double>(module.parameters) /
                                             static_cast<double>(memory.parameters)));
  return text;
}

std::string show_memory(const TrainingPlan& plan) {
  const MemoryPlan& memory = plan.memory;
  std::string text =
      plan.ranks == 1 ? "memory\n" : fmt::format("memory per rank ({} ranks)\n", plan.ranks);
  text += line("weights", bytes_text(memory.weights));
  text += line("gradients", bytes_text(memory.gradients));
  text += line("optimizer state", bytes_text(memory.optimizer));
  if (memory.average > 0) text += line("averaged weights", bytes_text(memory.average));
  text += line("activations", bytes_text(memory.activations), "per micro-batch");
  text += line("peak of a step", bytes_text(memory.step_peak));
  text += line("peak of an evaluation", bytes_text(memory.evaluation_peak));
  if (memory.checkpoint_peak > memory.step_peak)
    text += line("peak of a checkpoint", bytes_text(memory.checkpoint_peak));
  text += line("total", bytes_text(plan.needs()),
               fmt::format("with program, data and buffers kept for reuse; this machine has {}: {}",
                           bytes_text(plan.machine), plan.fits() ? "fits" : "DOES NOT FIT"));
  return text;
}

std::string show_change(const TrainingPlan& plan) {
  if (plan.fits()) return "";
  if (!plan.smallest)
    return fmt::format(
        "  the training does not fit with any number of micro-batches; use a smaller model or less "
        "data: "
        "weights, gradients and optimizer state need {}, program and data {}\n",
        bytes_text(plan.memory.weights + plan.memory.gradients + plan.memory.optimizer),
        bytes_text(plan.overhead));
  return fmt::format("  the training fits with --set {}, which needs {}: {}\n",
                     fmt::join(plan.smallest->overrides, " --set "),
                     bytes_text(plan.smallest->memory.held + plan.overhead), plan.smallest->cost);
}

std::string show_time(const TrainingPlan& plan) {
  std::string text = "time\n";
  text += line("operations per step", flops_text(plan.memory.flops));
  if (!plan.throughput)
    return text + fmt::format("  not measured{}\n", plan.ranks > 1 ? ": only one process is timed"
                                                    : plan.unmeasured.empty()
                                                        ? ""
                                                        : ": " + plan.unmeasured);
  const Throughput& throughput = *plan.throughput;
  const RunLength& run_length = plan.run_length;
  text += line("before the first step", duration_text(throughput.begin_s));
  text +=
      line("step", duration_text(throughput.step_s),
           fmt::format("{} to {} in {}; {:.3g} GFLOP/s", duration_text(throughput.fastest_step_s),
                       duration_text(throughput.slowest_step_s),
                       counted(throughput.steps, "measured step"),
                       plan.memory.flops / 1e9 / throughput.step_s));
  text += line("evaluation", duration_text(throughput.evaluation_s));
  if (throughput.test_s > 0) text += line("test split", duration_text(throughput.test_s));
  text += line("checkpoint", throughput.checkpoint_s > 0
                                 ? duration_text(throughput.checkpoint_s)
                                 : "not measured: no test file can be written here");
  text += line("total", duration_text(seconds_of(run_length, throughput)),
               fmt::format("{}, {}, at most {}", counted(run_length.steps, "step"),
                           counted(run_length.evaluations, "evaluation"),
                           counted(run_length.checkpoints, "checkpoint")));
  return text;
}

std::string show_disk(const TrainingPlan& plan) {
  return "disk\n" + line("checkpoint", bytes_text(plan.memory.checkpoint)) +
         line("run folder, at most", bytes_text(plan.disk),
              fmt::format("the last checkpoint, the best{}, and one being written; {}",
                          plan.disk > 3 * plan.memory.checkpoint ? ", both before the decay" : "",
                          plan.disk_free ? bytes_text(*plan.disk_free) + " are free"
                                         : "the free space is unknown"));
}

// Returns the bytes of this process outside arrays: what is resident now, such as the program, and
// each thread's buffers for panels of matrix products (2 to 3 MB were measured).
std::int64_t overhead_of_process() {
  constexpr std::int64_t bytes_of_a_thread = 3 << 20;
  return std::max(resident_bytes() - memory_use().bytes_held, std::int64_t{0}) +
         num_threads() * bytes_of_a_thread;
}

std::optional<std::int64_t> free_bytes_here() {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(".", unknown);
  if (unknown) return std::nullopt;
  return static_cast<std::int64_t>(space.available);
}

// --- the smallest change with which a training fits ---

Change joined(Change first, const Change& second) {
  first.overrides.insert(first.overrides.end(), second.overrides.begin(), second.overrides.end());
  first.cost += (first.cost.empty() || second.cost.empty() ? "" : "; ") + second.cost;
  return first;
}

// Returns the changes to more micro-batches than the configured number that divide the batch, up to
// 128.
std::vector<Change> more_micro_batches(const Config& config) {
  constexpr std::int64_t most = 128;
  std::vector<Change> all;
  for (std::int64_t count = config[key::micro_batches] + 1;
       count <= std::min(config[key::batch_size], most); ++count)
    if (config[key::batch_size] % count == 0)
      all.push_back({{fmt::format("{}={}", key::micro_batches.name, count)},
                     "steps are slightly slower; rounding, and the random numbers of dropout and "
                     "sampling, differ"});
  return all;
}

// Returns the changes to try that make a step need less memory, those that cost the least time
// first.
std::vector<Change> lighter_steps(const Config& config, int ranks) {
  const Change recomputed{
      {"train.checkpoint_activations=true"},
      "a third more arithmetic, because blocks are computed twice; bitwise identical"};
  Change sharded;
  if (ranks > 1 && !config[key::shard_optimizer])
    sharded = {{key::shard_optimizer.name + "=true"}, "more communication; bitwise identical"};
  std::vector<Change> all;
  for (const Change& first : {sharded, joined(sharded, recomputed)}) {
    all.push_back(first);
    for (const Change& micro_batches : more_micro_batches(config))
      all.push_back(joined(first, micro_batches));
  }
  return all;
}

// Returns the smallest change that keeps model, data and steps and with which each rank needs at
// most `limit` bytes; none if there is no such change. `now` is the plan without a change.
std::optional<Change> smallest_change(const ConfigWith& config_with, const MemoryPlan& now,
                                      int ranks, std::int64_t limit) {
  // By less than this the bytes of two processes that do the same differ.
  constexpr std::int64_t varying_bytes = 2 << 20;
  const std::int64_t bytes = limit - varying_bytes;
  if (now.weights + now.gradients + (ranks == 1 ? now.optimizer : 0) > bytes) return std::nullopt;
  const Config config = config_with({});
  const auto planned = [&](Change change) -> std::optional<Change> {
    try {
      const Config changed = config_with(change.overrides);
      check_training_keys(changed, ranks);
      change.memory = plan_fullest(changed, {.ranks = ranks, .seconds = 0.5});
      return change;
    } catch (const InputError&) {  // the task has no such key
      return std::nullopt;
    }
  };
  Change evaluation;
  std::int64_t evaluation_peak = now.evaluation_peak;
  for (std::int64_t size = config[key::eval_batch_size] / 2; evaluation_peak > bytes; size /= 2) {
    if (size < 1) return std::nullopt;
    evaluation = {{fmt::format("{}={}", key::eval_batch_size.name, size)},
                  "evaluations are slightly slower; the results are the same"};
    const std::optional<Change> tried = planned(evaluation);
    if (!tried) return std::nullopt;
    evaluation_peak = tried->memory.evaluation_peak;
  }
  for (const Change& step : lighter_steps(config, ranks))
    if (const std::optional<Change> tried = planned(joined(evaluation, step));
        tried && tried->memory.held <= bytes)
      return tried;
  return std::nullopt;
}

}  // namespace

TrainingPlan plan_training(const ConfigWith& config_with, const PlanOptions& options) {
  const Config config = config_with({});
  check_training_keys(config, options.ranks);
  TrainingPlan plan{.memory = plan_fullest(config, {.ranks = options.ranks}),
                    .machine = options.machine > 0 ? options.machine : machine_memory().memory,
                    .run_length = run_length_of(config),
                    .ranks = options.ranks,
                    .assumed = assumed_text(config).value_or("")};
  plan.overhead = overhead_of_process();
  const bool keeps_before_decay = config[key::schedule] == Decay::stable_linear;
  plan.disk = (keeps_before_decay ? 5 : 3) * plan.memory.checkpoint;
  plan.disk_free = free_bytes_here();
  if (!plan.fits())
    plan.smallest =
        smallest_change(config_with, plan.memory, options.ranks, plan.machine - plan.overhead);
  else if (!plan.assumed.empty())
    plan.unmeasured = "the text is missing";
  else if (options.seconds > 0 && options.ranks == 1)
    measure(plan, config, options.seconds);
  return plan;
}

void measure(TrainingPlan& plan, const Config& config, double seconds) try {
  plan.throughput =
      measure_throughput(config, {.seconds = seconds, .checkpoint_bytes = plan.memory.checkpoint});
} catch (const InputError&) {
  throw;
} catch (const std::runtime_error& error) {
  plan.unmeasured = error.what();
}

std::string show(const TrainingPlan& plan) {
  return (plan.assumed.empty() ? "" : plan.assumed + "\n") + show_parameters(plan.memory) +
         show_memory(plan) + show_change(plan) + show_time(plan) + show_disk(plan);
}

JsonValue json_of(const TrainingPlan& plan) {
  const MemoryPlan& memory = plan.memory;
  JsonValue modules = JsonValue::object();
  for (const ModuleSize& module : memory.modules) modules[module.name] = module.parameters;
  JsonValue all = {{"parameters", memory.parameters},
                   {"trained", memory.trained},
                   {"modules", modules},
                   {"ranks", plan.ranks},
                   {"bytes",
                    {{"weights", memory.weights},
                     {"gradients", memory.gradients},
                     {"optimizer", memory.optimizer},
                     {"average", memory.average},
                     {"activations", memory.activations},
                     {"batches", memory.batches},
                     {"step", memory.step_peak},
                     {"evaluation", memory.evaluation_peak},
                     {"tensors", memory.peak()},
                     {"process", plan.needs()},
                     {"machine", plan.machine},
                     {"checkpoint", memory.checkpoint},
                     {"disk", plan.disk}}},
                   {"fits", plan.fits()},
                   {"flops_a_step", memory.flops},
                   {"steps", plan.run_length.steps}};
  if (!plan.assumed.empty()) all["assumed"] = plan.assumed;
  if (plan.smallest) all["change"] = plan.smallest->overrides;
  if (plan.throughput)
    all["seconds"] = {{"begin", plan.throughput->begin_s},
                      {"first_step", plan.throughput->first_step_s},
                      {"step", plan.throughput->step_s},
                      {"evaluation", plan.throughput->evaluation_s},
                      {"test", plan.throughput->test_s},
                      {"checkpoint", plan.throughput->checkpoint_s},
                      {"in_all", seconds_of(plan.run_length, *plan.throughput)}};
  if (plan.throughput) all["bytes"]["measured_tensors"] = plan.throughput->tensor_bytes;
  return all;
}

}  // namespace tapestry
