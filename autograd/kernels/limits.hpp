#pragma once

#include "autograd/array.hpp"

namespace tapestry {

inline constexpr std::int64_t limit_columns = 768;  // some times what a level's registers hold

// What the processor's arithmetic and its memory do at most, on all threads, when no engine is in
// their way: the measure of the other kernels. x = x - 2 x, `times` times, in registers: after an
// even number it is what it was. 2 · times · x.size() operations of multiply-adds that do not wait
// for each other; each element is read and written once, where it is, whatever the times.
// x (n, limit_columns) float32.
void turn_signs(Array& x, std::int64_t times);

}  // namespace tapestry
