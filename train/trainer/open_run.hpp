#pragma once

#include <optional>

#include "train/run/checkpoint.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// The checkpoint to go on from, if the folder has one. InputError where the folder holds a run that
// is not to be resumed, one of another config, or something else than a run; for a new run, any
// file of a name that a run writes. It writes nothing.
std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume);

}  // namespace tapestry
