#pragma once

#include "layers/models/transformer.hpp"

namespace tapestry {

// Converts the weights of a model's linear maps and its token embedding to q8_0 (see
// autograd/q8_0.hpp), for inference: 9 instead of 32 bits per weight, and no gradients. Norms,
// biases, learned positions and adapters stay as they are, and so do weights with rows that are not
// a multiple of 32. Returns the number of converted weights.
std::int64_t quantize_weights(Transformer& model);

}  // namespace tapestry
