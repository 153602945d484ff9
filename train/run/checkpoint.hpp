#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optim/averaged_weights.hpp"
#include "optim/optimizer.hpp"
#include "train/run/safetensors.hpp"
#include "train/task.hpp"

namespace tapestry {

// XXH3 of tensors, 16 hexadecimal digits each, by their names in a checkpoint.
using Checksums = std::map<std::string, std::string>;

// Returns checksums, computed on all threads.
Checksums checksums_of(const OptimizerState& tensors);

// Returns one checksum of all: XXH3 of the lines "name checksum", sorted by name.
std::string combined(const Checksums& checksums);

// Returns the names of the tensors whose bits differ, or that one of the two lacks, sorted.
std::vector<std::string> differing_tensors(const Checksums& one, const Checksums& other);

// The state of a training without parameters and optimizer. Random numbers and the order of the
// data depend only on it and on the seed.
struct TrainingState {
  std::int64_t step = 0;      // number of steps, skipped ones included
  std::int64_t position = 0;  // number of training examples read
  double best_loss = std::numeric_limits<double>::infinity();  // lowest validation loss so far
  bool evaluation_due = false;  // a signal interrupted the evaluation of this step
  double elapsed_s = 0;         // time of training in all sessions, with evaluations
  std::int64_t examples = 0;    // number of training examples; a resumed run must have the same
  std::string data{};           // checksum of the training examples; empty if they are synthetic

  // State of callbacks (trainer/callbacks/).
  struct EarlyStopping {
    double improved_loss = std::numeric_limits<double>::infinity();  // loss of the last improvement
    std::int64_t patience_counter = 0;                               // evaluations since then
  } early_stopping{};
  struct SkippedSteps {
    std::int64_t count = 0;       // number of skipped steps
    std::vector<double> norms{};  // gradient norms of the last steps that were not skipped
  } skipped{};
};

// The contents of a checkpoint, which is a safetensors file. Its tensors are the parameters by
// their names, the optimizer's arrays as "optimizer.<slot>.<parameter>", and, if the parameters are
// averages, the trained weights as "optimizer.weights.<parameter>". Its metadata are the name of
// the format, the state, the resolved config, the backends, the task's metadata, the checksum of
// each tensor as "xxh3.<tensor>", and that of all other metadata as "xxh3".
struct Checkpoint {
  std::string path{};
  std::shared_ptr<SafetensorsReader> reader{};
  std::string config{};  // the resolved config as TOML
  TrainingState state{};
  std::map<std::string, std::string> metadata{};  // Task::metadata()
  std::string backends{};                         // backends that computed it
};

// Returns the tensors of a checkpoint by their names: parameters and the optimizer's arrays.
OptimizerState tensors_of(Module& model, const OptimizerState& optimizer);

// Writes a checkpoint. Throws whatever `write` throws.
void save_checkpoint(const WriteParts& write, Task& task, const OptimizerState& optimizer,
                     const Config& config, const TrainingState& state);

// Writes a model that was not trained here, without optimizer arrays and at step 0.
void save_weights(const WriteParts& write, Task& task, const Config& config);

// Returns a checkpoint without its tensors, which are read when they are restored. Throws
// InputError that names the file if it is damaged or not a checkpoint.
Checkpoint load_checkpoint_metadata(const std::string& path);

// Returns the checksum of all metadata but "xxh3", which is this checksum.
std::string metadata_checksum(std::map<std::string, std::string> metadata);

// Returns the checksum of a tensor. Throws InputError if it differs from the recorded one, or if
// the tensor cannot be read.
std::string checksum_of(const Checkpoint& checkpoint, const SafetensorsEntry& entry);

// Returns the recorded checksums of the parameters, without those of the optimizer's arrays. Throws
// InputError if one is missing.
Checksums parameter_checksums(const Checkpoint& checkpoint);

// Return the number of elements of all parameters, without the optimizer's arrays.
std::int64_t count_parameters(const Checkpoint& checkpoint);
std::int64_t count_parameters(Module& model);

// Returns the task that wrote a checkpoint. Its parameters have no values before they are restored.
// Throws InputError if the metadata are damaged, if the config describes a model that is more than
// 64 MiB larger, and as make_task() of a TaskSetup does.
std::unique_ptr<Task> make_task(const Checkpoint& checkpoint, const Config& config,
                                bool needs_data = true);

// How a model may differ from that of a file.
struct Differences {
  bool new_adapters = false;  // the file may have no adapters
  std::string file_has{};     // a module that only the file has
  std::string model_has{};    // a module that only the model has
};
// Throws InputError for a tensor that is missing, of another shape or dtype, or not in the model.
void expect_parameters(const Checkpoint& checkpoint, Module& model,
                       const Differences& allowed = {});

// Read tensors into the model and the optimizer. Throw InputError as expect_parameters does, for a
// tensor whose checksum differs, and for a parameter that is not finite.
void restore_parameters(const Checkpoint& checkpoint, Module& model,
                        const Differences& allowed = {});
void restore_optimizer(const Checkpoint& checkpoint, Optimizer& optimizer);
void restore_weights(const Checkpoint& checkpoint, AveragedWeights& average);

}  // namespace tapestry
