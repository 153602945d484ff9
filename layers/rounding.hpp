#pragma once

#include "layers/module.hpp"

namespace tapestry {

// Converts the weights of all linear maps and embeddings below this module to q8_0 (see
// autograd/q8_0.hpp), for inference: 9 instead of 32 bits per weight, and no gradients. Weights
// with rows that are no multiple of 32 stay as they are, as do norms, biases, learned positions and
// adapters. Returns the number of converted weights.
std::int64_t round_weights(Module& model);

}  // namespace tapestry
