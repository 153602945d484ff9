#pragma once

#include <map>
#include <string>

#include "train/config/config.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// Returns the checksum of what decides the result of a candidate: the settings that affect it, the
// budget of a run, and the checksums of the data and, with train.from, of the weights that the
// training begins with. The paths of both do not matter. Throws InputError if these weights cannot
// be read.
std::string effective_checksum(const Config& config, const TrainingState& initial);

// Returns the results of the candidates of the other searches in the folder of this experiment, by
// effective checksum: "searches/x/candidate-03, loss 1.8412", the mean over the seeds of runs of
// the full budget, or "searches/x/base, failed". Of candidates with equal checksums, it is that of
// the first folder by name. Prints a line about a ledger that cannot be read, and leaves it out.
std::map<std::string, std::string> results_beside(const Run& experiment);

}  // namespace tapestry
