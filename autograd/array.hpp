#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "autograd/shape.hpp"

namespace tapestry {

enum class DType { float32, float64, int32 };

const char* to_string(DType dtype);
std::size_t size_of(DType dtype);  // bytes an element

template <class T>
inline constexpr DType dtype_of = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;

// A cheap, shared handle to a row-major, contiguous block of numbers. It knows nothing of tapes.
// Its memory comes from a pool and goes back to it with the last handle.
class Array {
 public:
  Array() = default;                                                 // holds nothing
  explicit Array(const Shape& shape, DType dtype = DType::float32);  // not initialised

  static Array zeros(const Shape& shape, DType dtype = DType::float32);
  static Array full(const Shape& shape, double value, DType dtype = DType::float32);
  template <class T>
  static Array of(const std::vector<T>& values, const Shape& shape);

  bool empty() const { return !buffer_; }
  bool unique() const { return buffer_.use_count() == 1; }  // no other handle shares the memory
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t size() const { return shape_.elements(); }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const { return size() * size_of(dtype_); }

  // The elements in row-major order. T must match dtype(), else std::invalid_argument.
  template <class T>
  std::span<const T> values() const;
  template <class T>
  std::span<T> mutable_values();
  const std::byte* raw() const { return buffer_.get(); }
  std::byte* mutable_raw() { return buffer_.get(); }
  std::shared_ptr<const std::byte[]> buffer() const { return buffer_; }  // keeps the memory

  Array reshaped(const Shape& shape) const;                // the same memory under another shape
  Array part(std::int64_t begin, std::int64_t end) const;  // those elements of it, flat, in place
  Array clone() const;
  Array select(const std::vector<std::int64_t>& rows) const;  // a copy of rows of the first axis
  Array to(DType dtype) const;          // converted; the same handle if it has that type already
  void copy_from(const Array& source);  // same shape and dtype

 private:
  Shape shape_;
  DType dtype_ = DType::float32;
  std::shared_ptr<std::byte[]> buffer_;
};

// Calls body.operator()<T>() with the scalar type of a floating dtype; throws for int32.
template <class Body>
decltype(auto) dispatch(DType dtype, Body&& body);

// --- implementation of the templates ---

void require_dtype(DType actual, DType expected);
[[noreturn]] void throw_not_floating(DType dtype);

template <class T>
std::span<const T> Array::values() const {
  require_dtype(dtype_, dtype_of<T>);
  return std::span(reinterpret_cast<const T*>(buffer_.get()), size());
}

template <class T>
std::span<T> Array::mutable_values() {
  require_dtype(dtype_, dtype_of<T>);
  return std::span(reinterpret_cast<T*>(buffer_.get()), size());
}

template <class Body>
decltype(auto) dispatch(DType dtype, Body&& body) {
  if (dtype == DType::float32) return body.template operator()<float>();
  if (dtype == DType::float64) return body.template operator()<double>();
  throw_not_floating(dtype);
}

}  // namespace tapestry
