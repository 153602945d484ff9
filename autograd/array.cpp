#include "autograd/array.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"

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

}  // namespace

Array::Array(const Shape& shape, DType dtype)
    : shape_(shape), dtype_(dtype), buffer_(memory_for(shape, dtype)) {}

Array Array::zeros(const Shape& shape, DType dtype) {
  Array array(shape, dtype);
  std::memset(array.mutable_raw(), 0, array.bytes());
  return array;
}

Array Array::full(const Shape& shape, double value, DType dtype) {
  Array array(shape, dtype);
  if (dtype == DType::int32)
    std::ranges::fill(array.mutable_values<std::int32_t>(), std::int32_t(value));
  else
    dispatch(dtype, [&]<class T>() { std::ranges::fill(array.mutable_values<T>(), T(value)); });
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

Array Array::clone() const {
  Array array(shape_, dtype_);
  array.copy_from(*this);
  return array;
}

void Array::copy_from(const Array& source) {
  require(source.shape_ == shape_ && source.dtype_ == dtype_, "copy: {} {} into {} {}",
          to_string(source.dtype_), to_string(source.shape_), to_string(dtype_), to_string(shape_));
  if (bytes() > 0) std::memcpy(mutable_raw(), source.raw(), bytes());
}

Array Array::select(const std::vector<std::int64_t>& rows) const {
  Shape shape = shape_;
  shape[0] = std::ssize(rows);
  Array selected(shape, dtype_);
  const std::size_t row = bytes() / std::max<std::int64_t>(1, dim(0));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    require(rows[i] >= 0 && rows[i] < dim(0), "select: row {} of {}", rows[i], to_string(shape_));
    std::copy_n(raw() + rows[i] * row, row, selected.mutable_raw() + i * row);
  }
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
