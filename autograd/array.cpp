#include "autograd/array.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
  }
  return "unknown";
}

std::size_t size_of(DType dtype) { return dtype == DType::float64 ? 8 : 4; }

void require_dtype(DType actual, DType expected) {
  require(actual == expected, "array: holds {}, read as {}", to_string(actual),
          to_string(expected));
}

void throw_not_floating(DType dtype) {
  throw std::invalid_argument(fmt::format("expected float32 or float64, got {}", to_string(dtype)));
}

namespace {

std::shared_ptr<std::byte[]> memory_for(const Shape& shape, DType dtype) {
  try {
    return allocate(shape.elements() * size_of(dtype));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        fmt::format("{} {} array: {}", to_string(dtype), to_string(shape), error.what()));
  }
}

constexpr std::int64_t bytes_a_piece = 1 << 16;

// Threads share the rows of `row` bytes.
std::int64_t rows_a_piece(std::int64_t row) {
  return std::max<std::int64_t>(1, bytes_a_piece / std::max<std::int64_t>(1, row));
}

}  // namespace

Array::Array(const Shape& shape, DType dtype)
    : shape_(shape), dtype_(dtype), buffer_(memory_for(shape, dtype)) {}

Array Array::zeros(const Shape& shape, DType dtype) {
  Array array(shape, dtype);
  std::byte* to = array.mutable_raw();
  parallel_for(array.bytes(), bytes_a_piece, [=](std::int64_t begin, std::int64_t end) {
    std::memset(to + begin, 0, end - begin);
  });
  return array;
}

Array Array::full(const Shape& shape, double value, DType dtype) {
  Array array(shape, dtype);
  if (is_dry_run()) return array;
  if (dtype == DType::int32)
    std::ranges::fill(array.mutable_values<std::int32_t>(), std::int32_t(value));
  else
    dispatch(dtype, [&]<class T>() {
      T* to = array.mutable_values<T>().data();
      parallel_for(
          array.size(), rows_a_piece(sizeof(T)),
          [=](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, T(value)); });
    });
  return array;
}

template <class T>
Array Array::of(const std::vector<T>& values, const Shape& shape) {
  require(std::ssize(values) == shape.elements(), "array: {} values for shape {}", values.size(),
          to_string(shape));
  Array array(shape, dtype_of<T>);
  std::ranges::copy(values, array.mutable_values<T>().begin());
  return array;
}

template Array Array::of(const std::vector<float>&, const Shape&);
template Array Array::of(const std::vector<double>&, const Shape&);
template Array Array::of(const std::vector<std::int32_t>&, const Shape&);

Array Array::reshaped(const Shape& shape) const {
  require(shape.elements() == size(), "reshape: {} to {}", to_string(shape_), to_string(shape));
  Array array = *this;
  array.shape_ = shape;
  return array;
}

Array Array::part(std::int64_t begin, std::int64_t end) const {
  require(0 <= begin && begin <= end && end <= size(), "part: [{}, {}) of {} elements", begin, end,
          size());
  Array array;
  array.shape_ = {end - begin};
  array.dtype_ = dtype_;
  array.buffer_ = {buffer_, buffer_.get() + begin * size_of(dtype_)};
  return array;
}

Array Array::clone() const {
  Array array(shape_, dtype_);
  array.copy_from(*this);
  return array;
}

void Array::copy_from(const Array& source) {
  require(source.shape_ == shape_ && source.dtype_ == dtype_, "copy: {} {} into {} {}",
          to_string(source.dtype_), to_string(source.shape_), to_string(dtype_), to_string(shape_));
  std::byte* to = mutable_raw();
  parallel_for(bytes(), bytes_a_piece, [=, from = source.raw()](auto begin, auto end) {
    std::memcpy(to + begin, from + begin, end - begin);
  });
}

Array Array::select(const std::vector<std::int64_t>& rows) const {
  Shape shape = shape_;
  shape[0] = std::ssize(rows);
  Array selected(shape, dtype_);
  const std::size_t row = bytes() / std::max<std::int64_t>(1, dim(0));
  for (const std::int64_t i : rows)
    require(i >= 0 && i < dim(0), "select: row {} of {}", i, to_string(shape_));
  std::byte* to = selected.mutable_raw();
  parallel_for(std::ssize(rows), rows_a_piece(row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(raw() + rows[i] * row, row, to + i * row);
  });
  return selected;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array array(shape_, dtype);
  const auto convert_from = [&]<class From>() {
    const auto from = values<From>();
    if (dtype == DType::int32)
      std::ranges::transform(from, array.mutable_values<std::int32_t>().begin(),
                             [](From value) { return std::int32_t(value); });
    else
      dispatch(dtype, [&]<class To>() {
        std::ranges::transform(from, array.mutable_values<To>().begin(),
                               [](From value) { return To(value); });
      });
  };
  if (dtype_ == DType::int32)
    convert_from.template operator()<std::int32_t>();
  else
    dispatch(dtype_, convert_from);
  return array;
}

}  // namespace tapestry
