#pragma once

#include <vector>

#include "autograd/array.hpp"

// Sums, and copies between shapes that broadcast to each other by NumPy's rule.
namespace tapestry {

// Computes into += array for one shape and floating dtype; throws std::invalid_argument for others.
void add_in_place(Array& into, const Array& array);

// Returns the array repeated along stretched axes. Throws std::invalid_argument unless the array
// broadcasts to the shape.
Array broadcast_to(const Array& array, const Shape& shape);

// Returns the sums over the stretched axes, the adjoint of broadcast_to. If there are none, the
// result shares memory with `array`.
Array sum_to(const Array& array, const Shape& shape);

enum class Reduction { sum, max };

// Returns the array with the marked axes reduced to extent 1; shares memory if there are none. Sums
// have the same bits for any number of threads. The maximum of no elements is -inf.
Array reduce_axes(const Array& array, const std::vector<bool>& reduced, Reduction reduction);

// Return the sum of all elements, and of their squares, in float64.
double sum_all(const Array& array);
double sum_of_squares(const Array& array);

}  // namespace tapestry
