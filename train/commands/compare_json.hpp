#pragma once

#include <vector>

#include "data/json.hpp"
#include "train/tools/report/comparison.hpp"

// The output of `compare --json`, one object per line.
namespace tapestry {

// Returns {"run": …, "parameters": …} with the last evaluation of each run.
std::vector<JsonValue> json_of_runs(const std::vector<RunGroup>& groups);

// Returns {"group": …} for each group, with its runs, seeds and estimates; then {"comparison": …,
// "with": …} of each group with the first. Unknown values are omitted, such as low and high if
// there is no interval.
std::vector<JsonValue> json_of_groups(const std::vector<RunGroup>& groups);

}  // namespace tapestry
