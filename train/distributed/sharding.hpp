#pragma once

#include "optim/optimizer.hpp"
#include "train/distributed/gradient_sum.hpp"

// An optimiser of which each rank has a share (GradientSum::own_shard, Optimizer::keep_to).
namespace tapestry {

// By all, after a step: each rank has moved its share of the parameters, and gives it to the
// others.
void pass_parameters_on(GradientSum& sum, const std::vector<Parameter*>& parameters);

// By all: the whole state of the optimiser at rank 0, and nothing at the others.
OptimizerState gather_state(GradientSum& sum, const Optimizer& optimizer, const Ranks& ranks);

}  // namespace tapestry
