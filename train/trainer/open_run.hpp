#pragma once

#include <optional>

#include "train/run/checkpoint.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// Returns the checkpoint to resume, or nothing if the run has none yet. Throws InputError if
// `resume` does not fit what the folder holds (a run of another config, or no run), and, for a new
// run, if the folder has a file with the name of one that a run writes. Writes nothing.
std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume);

// Throws InputError if the data of a run until now, as `before` records them, are not those of
// `now`.
void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config);

}  // namespace tapestry
