#pragma once

#include <map>
#include <string>

#include "train/task.hpp"

namespace tapestry {

using NamedArrays = std::map<std::string, Array>;

// What a task's own model computes of the inputs of its models in ONNX, by the names that these
// have: tokens and masks are int32 here. Outputs of which there is no input are left out.
NamedArrays reference_outputs(Task& task, const NamedArrays& inputs);

}  // namespace tapestry
