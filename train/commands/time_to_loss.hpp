#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tapestry {

// Validation losses that trainings of shipped configs come to, by the configs' names.
const std::map<std::string, double>& goals();

struct TimeToLoss {
  double seconds = 0;  // to the evaluation that reached it, or the last: see time_to_loss
  double loss = 0;     // that it found
  std::int64_t steps = 0, evaluations = 0;
  bool reached = false, stopped = false;  // stopped: by a signal
};

// Trains one of goals() as `tapestry train` does, in a folder that goes again, until it is there.
// What it reads is looked for in `data` by the name that its [expected] gives. The seconds begin
// with the process, or, of all but its first training, as long before this one as the process took
// to begin.
TimeToLoss time_to_loss(const std::string& name, const std::string& data, std::int64_t threads);

}  // namespace tapestry
