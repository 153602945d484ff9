#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// table (V, C), tokens (...) int32 -> (..., C): row tokens[i] of the table. A token outside [0, V)
// is std::invalid_argument.
Tensor embedding(const Tensor& table, const Array& tokens);

}  // namespace tapestry
