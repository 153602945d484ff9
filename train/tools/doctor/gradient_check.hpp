#pragma once

#include <functional>

#include "train/task.hpp"

namespace tapestry {

// Converts a model, and moves every parameter a little: with biases of 0, features of 0 meet ReLU
// at its kink, where it has no derivative to check.
void to_float64_aside(Module& model);

// A training step's objective on two examples, of a model in float64: the same at each call. It
// uses the task as long as it lives.
std::function<Tensor()> objective_in_float64(Task& task, const Config& config);

// Floating inputs as float64, too.
Batch in_float64(Batch batch);

}  // namespace tapestry
