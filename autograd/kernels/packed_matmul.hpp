#pragma once

#include "autograd/kernels/matmul.hpp"

namespace tapestry {

// C of one product by a kernel of ours, after Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication" (2008), for float32 and float64. Each element is a sum of blocks of at
// most 192 terms, whatever thread computes it and however C is cut.
void multiply_packed(const Matmul& matmul, const MatmulOperands& operands);

std::string tile_name();  // "14x32 tiles": of float32

}  // namespace tapestry
