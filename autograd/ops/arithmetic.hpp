#pragma once

#include "autograd/tensor.hpp"

// Arithmetic with NumPy broadcasting: a (...), b (...) -> the shape that both broadcast to. A
// number has the dtype of the tensor beside it. Throws std::invalid_argument for shapes that do not
// broadcast, and for dtypes that differ or are int32.
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

// Returns a number as a constant () of x's floating dtype.
inline Array scalar_beside(const Tensor& x, double number) {
  return Array::full({}, number, x.dtype() == DType::float64 ? DType::float64 : DType::float32);
}
inline Tensor operator+(const Tensor& x, double y) { return add(x, scalar_beside(x, y)); }
inline Tensor operator+(double x, const Tensor& y) { return add(scalar_beside(y, x), y); }
inline Tensor operator-(const Tensor& x, double y) { return subtract(x, scalar_beside(x, y)); }
inline Tensor operator-(double x, const Tensor& y) { return subtract(scalar_beside(y, x), y); }
inline Tensor operator/(const Tensor& x, double y) { return divide(x, scalar_beside(x, y)); }
inline Tensor operator/(double x, const Tensor& y) { return divide(scalar_beside(y, x), y); }

}  // namespace tapestry
