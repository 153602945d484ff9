#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/commands/command.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

// Declares the options of all tasks together, because the task is known only when a run is loaded.
// A value must be valid for one of the tasks that have the option; it is appended to `typed`.
void declare_options(Arguments& arguments,
                     const std::map<std::string, std::vector<KeyInfo>>& options_of_tasks,
                     TypedOptions& typed);

// Declares the options of one kind of inspectors, such as &TaskSpec::samples.
template <class Shown>
void declare_options(Arguments& arguments, Inspector<Shown> TaskSpec::*inspector,
                     TypedOptions& typed) {
  std::map<std::string, std::vector<KeyInfo>> options;
  for (const auto& [task, spec] : task_registry()) options[task] = (spec.*inspector).options();
  declare_options(arguments, options, typed);
}

}  // namespace tapestry
