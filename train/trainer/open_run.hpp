#pragma once

#include <optional>

#include "train/run/checkpoint.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// Returns the checkpoint to resume, or nothing if the run has none or is new. Throws InputError if
// `resume` does not fit the folder (a run of another config, imported weights, or no run) or
// train.steps does not fit the run, for the folder of a search, and for a new run if the folder has
// a file that a run writes.
// Writes no files.
std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume);

// Returns the checkpoint of latest_checkpoint(); or, if that is within the decay of a wsd schedule
// that `config` changes, before_decay.safetensors. Throws as latest_checkpoint() does.
std::optional<Checkpoint> checkpoint_to_resume(const Run& run, const Config& config);

// Throws InputError, which names `run`, if the checkpoint cannot be resumed with this config:
// imported weights, other settings, more steps than train.steps, or another end of a schedule that
// decays.
void expect_resumable(const Run& run, const Checkpoint& checkpoint, const Config& config);

// Returns whether best.safetensors is of a later step.
bool has_later_best(const Run& run, std::int64_t step);

// Returns the state of a new training of the task: the number of its training examples, and the
// checksums of the data read from data.path.
TrainingState initial_state(Task& task, const Config& config);

// Throw InputError if the data that `before` recorded for a run, or its sessions, differ from those
// of `now`. A checksum that was not recorded is not compared.
void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config);
void expect_same_data(const Run& run, const TrainingState& now, const Config& config);

}  // namespace tapestry
