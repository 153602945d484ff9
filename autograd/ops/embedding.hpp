#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// Returns the rows of the table for all tokens: table (V, C), tokens (...) int32 -> (..., C).
// A table of q8_0 is a constant and gives float32. Throws std::invalid_argument for another rank or
// dtype, and for a token outside [0, V).
Tensor embedding(const Tensor& table, const Array& tokens);

}  // namespace tapestry
