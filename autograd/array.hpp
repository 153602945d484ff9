#pragma once

#include <fmt/format.h>  // core.h alone declares what formatters of strings do

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tapestry {

// The extent of each axis, outermost first. Copying a shape allocates no memory. More than max_rank
// axes and negative extents throw std::invalid_argument.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(extents.begin(), extents.end()) {}
  Shape(const std::int64_t* begin, const std::int64_t* end);

  int rank() const { return rank_; }
  // Returns the product of all extents; 1 for a scalar. Throws std::invalid_argument from 2^60 on.
  std::int64_t elements() const;

  // Returns the extent of an axis. Negative axes count from the last one.
  std::int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  std::int64_t& operator[](int axis) { return extents_[axis < 0 ? axis + rank_ : axis]; }
  void push_back(std::int64_t extent);

  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }

  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // returns "(2, 3)"; fmt prints shapes in the same way

// Returns the shape that both broadcast to by NumPy's rule: axes are aligned from the last, and an
// extent of 1 is stretched. Throws std::invalid_argument, which names `op` and both shapes, if
// there is none.
Shape broadcast(const char* op, const Shape& a, const Shape& b);
// Returns whether the shapes broadcast to each other.
bool broadcasts(const Shape& a, const Shape& b);

// Returns an axis in [-rank, rank) as one in [0, rank). Throws std::invalid_argument otherwise.
int normalize_axis(const char* op, int axis, const Shape& shape);

// The type of an array's elements. q8_0 stores 32 numbers of the last axis as a Q8Block (q8_0.hpp).
// Only linear() and embedding() read it, as a weight or table without gradient.
enum class DType { float32, float64, int32, q8_0 };

const char* to_string(DType dtype);
std::size_t size_of(DType dtype);  // returns the bytes of one element; of q8_0, those of a Q8Block
// Returns the bytes of this number of elements. Throws std::invalid_argument for q8_0 unless the
// number is a multiple of 32.
std::size_t bytes_of(DType dtype, std::int64_t elements);

template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t>;
template <Element T>
inline constexpr DType dtype_of = std::same_as<T, float>    ? DType::float32
                                  : std::same_as<T, double> ? DType::float64
                                                            : DType::int32;

// A shared handle to a row-major, contiguous array. Copying it copies the handle, not the elements.
// The memory comes from a pool, to which the last handle returns it. Functions that make an array
// throw OutOfMemory if there is no memory, and std::invalid_argument for q8_0 unless the last axis
// is a multiple of 32. Pullbacks read the inputs of their ops: do not write to an array between an
// op that reads it and backward(), or the gradient is wrong.
class Array {
 public:
  Array() = default;                                                 // empty: no memory
  explicit Array(const Shape& shape, DType dtype = DType::float32);  // elements are undefined

  static Array zeros(const Shape& shape, DType dtype = DType::float32);
  static Array full(const Shape& shape, double value, DType dtype = DType::float32);
  template <Element T>
  static Array of(const std::vector<T>& values, const Shape& shape);

  bool empty() const { return !buffer_; }
  // Returns whether no other handle shares the memory.
  bool unique() const { return buffer_.use_count() == 1; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  // Returns the extent of an axis, as Shape does. Throws std::invalid_argument if there is none.
  std::int64_t dim(int axis) const {
    if (axis < -rank() || axis >= rank()) normalize_axis("dim", axis, shape_);  // throws
    return shape_[axis];
  }
  std::int64_t size() const { return shape_.elements(); }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const { return bytes_of(dtype_, size()); }

  // Returns the elements in row-major order; of an empty array, none. Throws std::invalid_argument
  // if T is not dtype().
  template <Element T>
  std::span<const T> values() const;
  template <Element T>
  std::span<T> mutable_values();
  const std::byte* raw() const { return buffer_.get(); }
  std::byte* mutable_raw() { return buffer_.get(); }
  // Returns a handle that keeps the memory alive.
  std::shared_ptr<const std::byte[]> buffer() const { return buffer_; }

  // Return views and copies. Throw std::invalid_argument for shapes, ranges and dtypes that do not
  // fit.
  Array reshaped(const Shape& shape) const;                   // shares memory
  Array part(std::int64_t begin, std::int64_t end) const;     // flat; shares memory
  Array clone() const;                                        // copies
  Array select(const std::vector<std::int64_t>& rows) const;  // copies rows of the first axis
  Array to(DType dtype) const;                                // shares memory if nothing changes
  void copy_from(const Array& source);                        // needs equal shape and dtype

 private:
  Shape shape_;
  DType dtype_ = DType::float32;
  std::shared_ptr<std::byte[]> buffer_;
};

// Throws std::invalid_argument unless `array` has the dtype and shape that `op` expects of `name`.
void require_array(const char* op, const char* name, const Array& array, DType dtype,
                   const Shape& shape);

// Returns body.operator()<T>() with the scalar type T of a floating dtype. Throws
// std::invalid_argument for int32 and q8_0.
template <class Body>
decltype(auto) dispatch(DType dtype, Body&& body);

// --- implementation of the templates ---

void require_dtype(DType actual, DType expected);
[[noreturn]] void throw_not_floating(DType dtype);

template <Element T>
std::span<const T> Array::values() const {
  require_dtype(dtype_, dtype_of<T>);
  return std::span(reinterpret_cast<const T*>(buffer_.get()), empty() ? 0 : size());
}

template <Element T>
std::span<T> Array::mutable_values() {
  require_dtype(dtype_, dtype_of<T>);
  return std::span(reinterpret_cast<T*>(buffer_.get()), empty() ? 0 : size());
}

template <class Body>
decltype(auto) dispatch(DType dtype, Body&& body) {
  if (dtype == DType::float32) return body.template operator()<float>();
  if (dtype == DType::float64) return body.template operator()<double>();
  throw_not_floating(dtype);
}

// Returns the index of the first largest value. `values` must not be empty.
inline std::int64_t argmax(std::span<const float> values) {
  return std::ranges::max_element(values) - values.begin();
}

}  // namespace tapestry

template <>
struct fmt::formatter<tapestry::Shape> : fmt::formatter<fmt::string_view> {
  auto format(const tapestry::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(to_string(shape), context);
  }
};

template <>
struct fmt::formatter<tapestry::DType> : fmt::formatter<fmt::string_view> {
  auto format(tapestry::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(to_string(dtype), context);
  }
};

// Prints the dtype and the shape of an array: "float32 (2, 3)".
template <>
struct fmt::formatter<tapestry::Array> : fmt::formatter<fmt::string_view> {
  auto format(const tapestry::Array& array, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{} {}", array.dtype(), array.shape());
  }
};
