#pragma once

#include "autograd/array.hpp"

namespace tapestry {

inline constexpr std::int64_t limit_columns = 768;  // a multiple of the registers of all levels

// Computes x = x - 2 x `times` times in registers, on all threads, to measure the peaks of
// arithmetic and memory: 2 · times · x.size() operations of independent multiply-adds, and one read
// and one write of each element. An even number of times restores x (n, limit_columns) float32.
void turn_signs(Array& x, std::int64_t times);

}  // namespace tapestry
