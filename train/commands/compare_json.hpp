#pragma once

#include <vector>

#include "data/json.hpp"
#include "train/tools/report/comparison.hpp"

// The output of `compare --json`, one object per line.
namespace tapestry {

// {"run": …, "parameters": …} and the run's last evaluation.
std::vector<JsonValue> json_of_runs(const std::vector<RunGroup>& groups);

// {"group": …} of each, with its runs, seeds and estimates; then {"comparison": …, "with": …} of
// each with the first. What is not known is left out: low and high where there is no interval.
std::vector<JsonValue> json_of_groups(const std::vector<RunGroup>& groups);

}  // namespace tapestry
