#pragma once

#include <string>

#include "autograd/kernels/matmul.hpp"

namespace tapestry {

// float32 products of operands that are rounded to bfloat16 first: by oneDNN where the processor
// has such products, else by the float32 engine.
void multiply_rounded(const Matmul& matmul, const std::vector<MatmulOperands>& batch);

std::string onednn_name();  // "oneDNN 2.6.3 (AMX)"; empty where it is not built in

}  // namespace tapestry
