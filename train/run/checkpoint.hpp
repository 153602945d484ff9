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

// XXH3 of tensors, 16 hexadecimal digits each, by the names that checkpoints keep them under.
using Checksums = std::map<std::string, std::string>;

Checksums checksums_of(const OptimizerState& tensors);  // threads share the work

// Returns one checksum of them all: XXH3 of the lines "name checksum", in the order of the names.
std::string combined(const Checksums& checksums);

// Returns the names of the tensors whose bits differ, or that one of the two lacks, in order.
std::vector<std::string> differing_tensors(const Checksums& one, const Checksums& other);

// Where a training stands, apart from parameters and optimizer. With the seed, which the config
// holds, it is all that the random numbers and the order of the data depend on.
struct TrainingState {
  std::int64_t step = 0;      // optimizer steps done
  std::int64_t position = 0;  // training examples read
  double best_loss = std::numeric_limits<double>::infinity();
  bool evaluation_due = false;  // of this step; a signal came before its end
  double elapsed_s = 0;
  std::int64_t examples = 0;  // of the training data, which a resumed run must find again
  std::string data{};         // their checksum; empty where they are synthetic

  // Sections of callbacks (trainer/callbacks/).
  struct EarlyStopping {
    double improved_loss = std::numeric_limits<double>::infinity();  // the last that counted
    std::int64_t patience_counter = 0;                               // evaluations since then
  } early_stopping{};
  struct SkippedSteps {
    std::int64_t count = 0;       // of the steps done, those that moved nothing
    std::vector<double> norms{};  // of the latest others, by which a bad step is found
  } skipped{};
};

// A checkpoint is a safetensors file: parameters by their own names, the optimiser's arrays as
// "optimizer.<slot>.<parameter>" (where parameters are an average, the weights that are trained as
// "optimizer.weights.<parameter>"), and as metadata the state, the resolved config, the task's
// metadata, each tensor's checksum as "xxh3.<tensor>", and that of all other metadata as "xxh3".
struct Checkpoint {
  std::string path{};
  std::shared_ptr<SafetensorsReader> reader{};
  Safetensors file{};  // its metadata, and the tensors that load_checkpoint read
  std::string config{};
  TrainingState state{};
  std::map<std::string, std::string> metadata{};
  std::string backends{};  // that computed it
};

// Its tensors by their names: parameters, and the optimiser's arrays.
OptimizerState tensors_of(Module& model, const OptimizerState& optimizer);

void save_checkpoint(const WriteParts& write, Task& task, const OptimizerState& optimizer,
                     const Config& config, const TrainingState& state);

// The same before any step, of a model that was not trained here: without an optimiser's arrays.
void save_weights(const WriteParts& write, Task& task, const Config& config);

// InputError, which names the file, for a file that is damaged or not a checkpoint.
Checkpoint load_checkpoint(const std::string& path);
Checkpoint load_checkpoint_head(const std::string& path);  // its tensors wait in the file

// Returns the checksum of metadata that stands among them as "xxh3", which it leaves out.
std::string metadata_checksum(std::map<std::string, std::string> metadata);

// Of one of its tensors. InputError where its bytes are not those that were written.
std::string checksum_of(const Checkpoint& checkpoint, const SafetensorsEntry& entry);

// The checksums of the model's parameters, without those of the optimizer's arrays.
Checksums parameter_checksums(const Checkpoint& checkpoint);

std::int64_t count_parameters(const Checkpoint& checkpoint);  // numbers, of the model alone
std::int64_t count_parameters(Module& model);

// The task that wrote it, whose parameters hold nothing before they are restored. InputError where
// its metadata is damaged.
std::unique_ptr<Task> make_task(const Checkpoint& checkpoint, const Config& config,
                                bool needs_data = true);

// InputError for a tensor that is missing, of another shape or dtype, or without a place.
enum class Adapters { saved, new_or_saved };  // new_or_saved: where the file has none they stay
void expect_parameters(const Checkpoint& checkpoint, Module& model,
                       Adapters adapters = Adapters::saved);

// Copy tensors into place. InputError as above, and for one that is not as it was written; a
// parameter must also be finite.
void restore_parameters(const Checkpoint& checkpoint, Module& model,
                        Adapters adapters = Adapters::saved);
void restore_optimizer(const Checkpoint& checkpoint, Optimizer& optimizer);
void restore_weights(const Checkpoint& checkpoint, AveragedWeights& average);

}  // namespace tapestry
