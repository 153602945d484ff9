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

// The largest difference between each output of the models, evaluated with drawn inputs, and what
// the task's own model computes: absolute of numbers up to 1, else relative. Axes without a fixed
// length are B and T. Empty: the task's model has no such outputs.
std::map<std::string, double> onnx_differences(const std::vector<OnnxModel>& models, Task& task,
                                               std::int64_t B, std::int64_t T);

// Moves vectors away from the ones and zeros that they begin with, as a training does.
void move_vectors(Module& model);

}  // namespace tapestry
