#include "train/tools/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "autograd/buffer_pool.hpp"
#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/measure/quantities.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/status_line.hpp"

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
      plan.ranks == 1 ? "memory\n" : fmt::format("memory of each of {} ranks\n", plan.ranks);
  text += line("weights", bytes_text(memory.weights));
  text += line("gradients", bytes_text(memory.gradients));
  text += line("optimiser's state", bytes_text(memory.optimizer));
  if (memory.average > 0) text += line("averaged weights", bytes_text(memory.average));
  text += line("activations", bytes_text(memory.activations), "of one part of a step");
  text += line("a step at most", bytes_text(memory.step_peak));
  text += line("an evaluation at most", bytes_text(memory.evaluation_peak));
  if (memory.checkpoint_peak > memory.step_peak)
    text += line("a checkpoint at most", bytes_text(memory.checkpoint_peak));
  text += line("the process", bytes_text(plan.needs()),
               fmt::format("with its data and what it keeps for reuse, of {} here: {}",
                           bytes_text(plan.machine), plan.fits() ? "fits" : "DOES NOT FIT"));
  return text;
}

std::string show_change(const TrainingPlan& plan) {
  if (plan.fits()) return "";
  if (!plan.smallest)
    return fmt::format(
        "  no change that leaves model and data as they are, with up to 128 micro-batches, makes "
        "it fit: weights, gradients and "
        "the optimiser's state take {}, the program with its data {}\n",
        bytes_text(plan.memory.weights + plan.memory.gradients + plan.memory.optimizer),
        bytes_text(plan.overhead));
  return fmt::format("  --set {} makes it {}: {}\n", fmt::join(plan.smallest->overrides, " --set "),
                     bytes_text(plan.smallest->memory.held + plan.overhead), plan.smallest->cost);
}

std::string show_time(const TrainingPlan& plan) {
  std::string text = "time\n";
  text += line("arithmetic of a step", fmt::format("{:.3g} GFLOP", plan.memory.flops / 1e9));
  if (!plan.throughput)
    return text +
           fmt::format("  not measured{}\n", plan.ranks > 1 ? ": of one process alone it can be"
                                             : !plan.unmeasured.empty() ? ": " + plan.unmeasured
                                                                        : "");
  const Throughput& throughput = *plan.throughput;
  const RunLength& run_length = plan.run_length;
  text += line("until the first step", duration_text(throughput.begin_s));
  text += line("a step", duration_text(throughput.step_s),
               fmt::format("{} to {} of {} measured; {:.3g} GFLOP/s",
                           duration_text(throughput.fastest_step_s),
                           duration_text(throughput.slowest_step_s), throughput.steps,
                           plan.memory.flops / 1e9 / throughput.step_s));
  text += line("an evaluation", duration_text(throughput.evaluation_s));
  if (throughput.test_s > 0) text += line("the test", duration_text(throughput.test_s));
  text += line("a checkpoint", throughput.checkpoint_s > 0
                                   ? duration_text(throughput.checkpoint_s)
                                   : "not measured: nothing can be written here");
  text += line("in all", duration_text(seconds_of(run_length, throughput)),
               fmt::format("{} steps, {} evaluations, {} checkpoints at most", run_length.steps,
                           run_length.evaluations, run_length.checkpoints));
  return text;
}

std::string show_disk(const TrainingPlan& plan) {
  return "disk\n" + line("a checkpoint", bytes_text(plan.memory.checkpoint)) +
         line("the run at most", bytes_text(plan.disk),
              fmt::format("the last, the best, and one that is being written; of {} free here",
                          bytes_text(plan.disk_free)));
}

// What a thread keeps beside arrays, for panels and tiles of products: 2 to 3 MB were measured.
constexpr std::int64_t bytes_of_a_thread = 3 << 20;

// Of this process, which holds the program and, since the memory was planned, the data.
std::int64_t overhead_of_process() {
  return std::max(resident_bytes() - memory_use().bytes_held, std::int64_t{0}) +
         num_threads() * bytes_of_a_thread;
}

std::int64_t free_bytes_here() {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(".", unknown);
  return unknown ? 0 : static_cast<std::int64_t>(space.available);
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
  plan.disk = 3 * plan.memory.checkpoint;
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

std::string json(const TrainingPlan& plan) {
  using Json = JsonValue;
  const MemoryPlan& memory = plan.memory;
  Json modules = Json::object();
  for (const ModuleSize& module : memory.modules) modules[module.name] = module.parameters;
  Json all = {{"parameters", memory.parameters},
              {"trained", memory.trained},
              {"modules", modules},
              {"ranks", plan.ranks},
              {"bytes",
               {{"weights", memory.weights},
                {"gradients", memory.gradients},
                {"optimizer", memory.optimizer},
                {"average", memory.average},
                {"activations", memory.activations},
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
  return all.dump();
}

}  // namespace tapestry
