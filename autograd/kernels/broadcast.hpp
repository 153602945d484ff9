#pragma once

#include <vector>

#include "autograd/array.hpp"

// Moving values between shapes that broadcast to each other (NumPy's rule).
namespace tapestry {

// into += array. Same shape and dtype, floating.
void add_in_place(Array& into, const Array& array);
void add_on_this_thread(Array& into, const Array& array);  // the same, by the calling thread alone

// Repeats along stretched axes: array's shape -> shape.
Array broadcast_to(const Array& array, const Shape& shape);

// The adjoint of broadcast_to: sums over the stretched axes. The same handle if there are none.
Array sum_to(const Array& array, const Shape& shape);

enum class Reduction { sum, max };

// Reduces the axes that are marked to extent 1; the same handle if there are none. Sums run in
// fixed pieces: the same bits at any thread count. The maximum of no elements is -inf.
Array reduce_axes(const Array& array, const std::vector<bool>& reduced, Reduction reduction);

// Over all elements, as a double.
double sum_all(const Array& array);
double sum_of_squares(const Array& array);

}  // namespace tapestry
