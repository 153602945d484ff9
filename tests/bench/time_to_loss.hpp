#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tapestry {

// Validation losses that shipped configs reach, by config name.
const std::map<std::string, double>& goals();

struct TimeToLoss {
  double seconds = 0;  // to the evaluation that reached the goal, or the last: see time_to_loss
  double loss = 0;     // of that evaluation
  std::int64_t steps = 0, evaluations = 0;
  bool reached = false, stopped = false;  // stopped: by a signal
};

// Trains the config `name` of goals() as `tapestry train` does, in a folder that it removes, until
// the goal is reached. `data` is the folder in which the file or folder that the config's
// [expected] names is looked for. The seconds of a process's first training begin with the process;
// those of a later one begin as long before it as the process took to start.
TimeToLoss time_to_loss(const std::string& name, const std::string& data, std::int64_t threads);

}  // namespace tapestry
