#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace tapestry {

// Returns the config with these overrides on top of its own. Throws InputError if it has no such
// key.
using ConfigWith = std::function<Config(const std::vector<std::string>& overrides)>;

// The parameters of a module; "blocks.*" stands for all blocks.
struct ModuleSize {
  std::string name;
  std::int64_t parameters = 0;
};

// The memory of one process of a training, in bytes except for the counts.
struct MemoryPlan {
  std::int64_t parameters = 0, trained = 0;  // numbers
  std::vector<ModuleSize> modules{};         // in the order of the model
  std::int64_t data = 0;                     // arrays of examples
  std::int64_t weights = 0;
  std::int64_t gradients = 0;  // gradients of the trained parameters
  std::int64_t optimizer = 0;  // optimizer state: the shard of this rank, if it is sharded
  std::int64_t average = 0;    // averaged weights
  // Activations that the forward pass of a micro-batch keeps for the backward pass.
  std::int64_t activations = 0;
  // The most that all arrays hold together: in a step, in an evaluation, in a checkpoint.
  std::int64_t step_peak = 0, evaluation_peak = 0, checkpoint_peak = 0;
  std::int64_t held = 0;        // requested from the system, for those arrays and buffers
  std::int64_t checkpoint = 0;  // bytes of a checkpoint's tensors
  double flops = 0;             // FLOP of a step's matrix products and attention on this rank

  std::int64_t peak() const;  // returns the largest of the three peaks
};

struct MemoryPlanOptions {
  int rank = 0, ranks = 1;
  double seconds = 2;  // time to search each split for larger batches
};

// Runs steps, evaluations and a checkpoint of a training as a dry run (autograd/dry_run.hpp), with
// the batches that it would read: nothing is computed, and only the data take memory. If batches
// differ in length, the peaks are those of up to 400 of them, as far as the seconds reach. Throws
// InputError as the training would.
MemoryPlan plan_memory(const Config& config, const MemoryPlanOptions& options = {});

// Returns the plan of the first or the last rank, whichever holds more.
MemoryPlan plan_fullest(const Config& config, const MemoryPlanOptions& options);

// A change of a config with which its training needs less memory.
struct Change {
  std::vector<std::string> overrides{};  // "train.micro_batches=4"
  std::string cost{};                    // in words
  MemoryPlan memory{};                   // with the change
};

// Measured seconds of the parts of a training on this machine, by one process.
struct Throughput {
  double begin_s = 0;       // time until the first step: reading data, initializing weights
  double first_step_s = 0;  // creates buffers and the optimizer's state
  double step_s = 0;        // time of later steps: the median, or the mean if lengths differ
  double fastest_step_s = 0, slowest_step_s = 0;
  std::int64_t steps = 0;         // measured
  double evaluation_s = 0;        // time of the whole validation split
  double test_s = 0;              // time of the whole test split, if there is one
  double checkpoint_s = 0;        // written into the current folder and synced; 0: not possible
  std::int64_t tensor_bytes = 0;  // the most that arrays held meanwhile
};

struct ThroughputOptions {
  double seconds = 5;  // time for steps, and the same again for evaluations
  // Size of a checkpoint, a part of which is written and removed.
  std::int64_t checkpoint_bytes = 0;
};

// Trains a few steps, evaluates a few batches, and keeps nothing. A step that takes longer than the
// seconds is done once.
Throughput measure_throughput(const Config& config, const ThroughputOptions& options);

// The work of a training: at most, if every evaluation finds a better model, which is saved.
struct RunLength {
  std::int64_t steps = 0, evaluations = 0, checkpoints = 0;
};
RunLength run_length_of(const Config& config);
double seconds_of(const RunLength& run_length, const Throughput& throughput);

// The estimated resources of a training.
struct TrainingPlan {
  MemoryPlan memory{};
  std::int64_t overhead = 0;  // bytes of the process beside its arrays: program and data
  std::int64_t machine = 0;   // bytes that it may have
  RunLength run_length{};
  std::optional<Throughput> throughput{};  // none if it was not measured
  std::string unmeasured{};                // the failure of a step that was to be measured
  std::int64_t disk = 0;             // bytes of its folder, at most, while a checkpoint is written
  std::int64_t disk_free = 0;        // bytes
  std::optional<Change> smallest{};  // the smallest change that makes it fit, if it does not
  int ranks = 1;
  std::string assumed{};  // about a text that is missing, in one line

  bool fits() const { return needs() <= machine; }
  std::int64_t needs() const { return memory.held + overhead; }  // bytes of this process
};

struct PlanOptions {
  int ranks = 1;
  double seconds = 5;        // time to measure the throughput; 0: not measured
  std::int64_t machine = 0;  // bytes of memory; 0: those of this machine
};

// Plans memory by shapes alone, and measures the throughput if the training fits and has one
// process. Throws InputError as the training would.
TrainingPlan plan_training(const ConfigWith& config_with, const PlanOptions& options);

// Adds the throughput to the plan of one process, or why there is none.
void measure(TrainingPlan& plan, const Config& config, double seconds);

std::string show(const TrainingPlan& plan);
std::string json(const TrainingPlan& plan);

}  // namespace tapestry
