#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace tapestry {

class JsonValue;

// A function that returns the config with these overrides applied last. Throws InputError for an
// unknown key or a wrong value.
using ConfigWith = std::function<Config(const std::vector<std::string>& overrides)>;

// The number of parameters of a module; "blocks.*" stands for all blocks.
struct ModuleSize {
  std::string name;
  std::int64_t parameters = 0;
};

// The memory of one process of a training. Sizes are in bytes.
struct MemoryPlan {
  std::int64_t parameters = 0, trained = 0;  // numbers of parameters
  std::vector<ModuleSize> modules{};         // in model order
  std::int64_t data = 0;                     // arrays of examples
  std::int64_t weights = 0;
  std::int64_t gradients = 0;      // gradients of the trained parameters
  std::int64_t optimizer = 0;      // optimizer state; the shard of this rank if it is sharded
  bool has_uneven_shards = false;  // see Trainer
  std::int64_t average = 0;        // averaged weights
  // Activations that the forward pass of a micro-batch keeps for the backward pass.
  std::int64_t activations = 0;
  std::int64_t batches = 0;  // batches of the next steps, which the loader prepares in a thread
  // Maximum total size of all arrays: in a step, in an evaluation, in a checkpoint.
  std::int64_t step_peak = 0, evaluation_peak = 0, checkpoint_peak = 0;
  std::int64_t held = 0;        // memory requested from the system for arrays and buffers
  std::int64_t checkpoint = 0;  // size of the tensors of a checkpoint
  double flops = 0;             // FLOP of a step's matrix products and attention on this rank

  std::int64_t peak() const;  // returns the largest of the three peaks
};

struct MemoryPlanOptions {
  int rank = 0, ranks = 1;
  double seconds = 2;  // time to search each split for the largest batches
};

// Returns the memory of a training: runs steps, evaluations and a checkpoint with the batches of
// the training as a dry run (autograd/dry_run.hpp), in which only the data take memory. If the
// lengths of batches differ, the peaks are those of the largest of up to 400 batches that are tried
// within `seconds`. Throws InputError as the training does.
MemoryPlan plan_memory(const Config& config, const MemoryPlanOptions& options = {});

// Returns the plan of the rank that needs the most memory: of all ranks if their shards of the
// optimizer state are uneven, otherwise of the first and the last; options.rank is not used. Throws
// as plan_memory() does.
MemoryPlan plan_fullest(const Config& config, const MemoryPlanOptions& options);

// A change of the config that reduces the memory of its training.
struct Change {
  std::vector<std::string> overrides{};  // "train.micro_batches=4"
  std::string cost{};                    // effect on the training, in words
  MemoryPlan memory{};                   // memory with this change
};

// Measured times of the phases of a training by one process on this machine, in seconds.
struct Throughput {
  double begin_s = 0;       // time until the first step: reading data, initializing weights
  double first_step_s = 0;  // the first step also creates buffers and the optimizer state
  double step_s = 0;        // time of later steps: the median, or the mean if lengths differ
  double fastest_step_s = 0, slowest_step_s = 0;
  std::int64_t steps = 0;   // number of measured steps
  double evaluation_s = 0;  // time of the whole validation split
  double test_s = 0;        // time of the whole test split, if there is one
  double checkpoint_s = 0;  // time to write and sync one in the current folder; 0: cannot write
  std::int64_t tensor_bytes = 0;  // maximum total size of arrays during the measurement, in bytes
};

struct ThroughputOptions {
  double seconds = 5;  // time for the steps, and again for the evaluations
  // Size of a checkpoint in bytes; up to 256 MiB are written to an unnamed file. 0: no measurement.
  std::int64_t checkpoint_bytes = 0;
};

// Trains a few steps, evaluates a few batches, writes a file, and discards the results. If the
// first step takes longer than `seconds`, no other step is trained. Throws as the training does.
Throughput measure_throughput(const Config& config, const ThroughputOptions& options);

// The maximum work of a training: every evaluation improves the model, which is then saved.
struct RunLength {
  std::int64_t steps = 0, evaluations = 0, checkpoints = 0;
};
RunLength run_length_of(const Config& config);
// Returns the estimated duration of a training in seconds.
double seconds_of(const RunLength& run_length, const Throughput& throughput);

// Estimated resources of a training.
struct TrainingPlan {
  MemoryPlan memory{};
  std::int64_t overhead = 0;  // bytes of the process outside its arrays: program and data
  std::int64_t machine = 0;   // bytes that the process can use
  RunLength run_length{};
  std::optional<Throughput> throughput{};  // null if not measured
  std::string unmeasured{};                // why the measurement failed; empty if not attempted
  std::int64_t disk = 0;  // maximum bytes of the run's folder, while a checkpoint is written
  std::optional<std::int64_t> disk_free{};  // free bytes in the current folder; null: unknown
  // The smallest change with which the training fits; null if the training fits, or never does.
  std::optional<Change> smallest{};
  int ranks = 1;
  std::string assumed{};  // one line about a missing text

  bool fits() const { return needs() <= machine; }
  std::int64_t needs() const { return memory.held + overhead; }  // needed bytes of this process
};

struct PlanOptions {
  int ranks = 1;
  double seconds = 5;        // time to measure the throughput; 0: not measured
  std::int64_t machine = 0;  // bytes of memory; 0: that of this machine
};

// Returns the memory of a training from a dry run, and the measured throughput if the training fits
// and has one process and its text exists. Throws InputError as the training does.
TrainingPlan plan_training(const ConfigWith& config_with, const PlanOptions& options);

// Sets `throughput` of a plan with one process, or `unmeasured` if the measurement fails. Throws
// InputError as the training does.
void measure(TrainingPlan& plan, const Config& config, double seconds);

// Return the plan as lines for a terminal, and as a JSON object.
std::string show(const TrainingPlan& plan);
JsonValue json_of(const TrainingPlan& plan);

}  // namespace tapestry
