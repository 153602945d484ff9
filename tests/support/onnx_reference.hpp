#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/onnx_file.hpp"
#include "train/task.hpp"

namespace tapestry {

using NamedArrays = std::map<std::string, Array>;

// Converts a task's model to float64 and returns what it computes of the inputs of its models in
// ONNX, by the names that these have: tokens and masks are int32 here. Outputs of which there is no
// input are left out.
NamedArrays reference_outputs(Task& task, NamedArrays inputs);

// Returns, for each output of the models, evaluated with drawn inputs, its largest difference from
// what the task's own model computes: absolute of numbers up to 1, else relative; infinity if the
// shapes differ. Axes without a fixed length have one example of `longest` positions, then three of
// at most three. Converts the task's model to float64. Throws std::invalid_argument if the task's
// model knows none of the inputs.
std::map<std::string, double> onnx_differences(const std::vector<OnnxModel>& models, Task& task,
                                               std::int64_t longest);

// Changes vectors and adapters from their initial ones and zeros, as a training does.
void move_parameters(Module& model);

}  // namespace tapestry
