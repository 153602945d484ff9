#pragma once

#include "optim/optimizer.hpp"
#include "train/distributed/gradient_sum.hpp"

// An optimizer whose state is sharded over the ranks (GradientSum::own_shard, Optimizer::keep_to).
namespace tapestry {

// Sends this rank's shard of the updated parameters to the other ranks, and receives theirs.
// Collective, after a step.
void pass_parameters_on(GradientSum& sum, const std::vector<Parameter*>& parameters);

// Returns the whole state of the optimizer on rank 0, and an empty state on the other ranks.
// Collective.
OptimizerState gather_state(GradientSum& sum, const Optimizer& optimizer, const Ranks& ranks);

}  // namespace tapestry
