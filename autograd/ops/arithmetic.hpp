#pragma once

#include "autograd/tensor.hpp"

// Arithmetic with NumPy broadcasting: a (...), b (...) -> the shape that both broadcast to. Throws
// std::invalid_argument for shapes that do not broadcast, and for dtypes that differ or are int32.
namespace tapestry {

Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);  // x (...) -> factor · x (...)

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
inline Tensor operator-(const Tensor& x) { return scale(x, -1.0); }

}  // namespace tapestry
