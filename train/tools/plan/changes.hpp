#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/tools/plan/memory_plan.hpp"

namespace tapestry {

// A change of a config that makes its training hold less.
struct Change {
  std::vector<std::string> overrides;  // "train.micro_batches=4"
  std::string cost;                    // what it costs, in words
  MemoryPlan memory;                   // with it
};

// The config with these overrides on top of its own. InputError where it has no such key.
using ConfigWith = std::function<Config(const std::vector<std::string>& overrides)>;

// The first of the changes that leave model, data and steps as they are, the least first, with
// which each of the ranks asks for at most so many bytes; nothing where none is enough. `now`:
// without.
std::optional<Change> smallest_change(const ConfigWith& config_with, const MemoryPlan& now,
                                      int ranks, std::int64_t bytes);

}  // namespace tapestry
