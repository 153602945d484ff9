#pragma once

#include <functional>
#include <map>
#include <string>

#include "train/measure/step_speed.hpp"

namespace tapestry {

// A step that developers measure: a training step, a layer, or generation.
struct Workload {
  std::string help;
  std::function<StepSpeed()> measure;
};
const std::map<std::string, Workload>& workloads();  // by name

}  // namespace tapestry
