#include "autograd/array.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"
#include "autograd/q8_0.hpp"

namespace tapestry {

thread_local bool DryRun::is_current_ = false;

DryRun::DryRun(bool is_one) : Restore(is_current_, is_one) {}

bool is_dry_run() { return DryRun::is_current_; }

Shape::Shape(const std::int64_t* begin, const std::int64_t* end) {
  for (const std::int64_t* extent = begin; extent != end; ++extent) push_back(*extent);
}

std::int64_t Shape::elements() const {
  constexpr std::int64_t limit = std::int64_t{1} << 60;  // whose bytes are countable in any dtype
  std::int64_t product = 1;                              // of the extents that are not 0
  bool fits = true, is_empty = false;
  for (const std::int64_t extent : *this) {
    is_empty |= extent == 0;
    fits &= extent >= 0 &&
            !__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product);
  }
  if (!fits || product >= limit) [[unlikely]]
    throw std::invalid_argument(fmt::format(
        "shape: {} has extents below 0, or 2^60 elements or more; expected fewer", *this));
  return is_empty ? 0 : product;
}

void Shape::push_back(std::int64_t extent) {
  require(rank_ < max_rank, "shape: too many axes; expected at most {}", max_rank);
  require_value(extent >= 0, "shape", "extent", extent, "0 or more");
  extents_[rank_++] = extent;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.rank(); ++axis)
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  return text + (shape.rank() == 1 ? ",)" : ")");
}

bool broadcasts(const Shape& a, const Shape& b) {
  for (int axis = -1; axis >= -std::min(a.rank(), b.rank()); --axis)
    if (a[axis] != b[axis] && a[axis] != 1 && b[axis] != 1) return false;
  return true;
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  require(broadcasts(a, b), "{}: shapes {} and {} do not broadcast; expected equal extents or 1",
          op, a, b);
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int axis = -1; axis >= -shorter.rank(); --axis)
    if (result[axis] == 1) result[axis] = shorter[axis];
  return result;
}

int normalize_axis(const char* op, int axis, const Shape& shape) {
  require(axis >= -shape.rank() && axis < shape.rank(),
          "{}: axis {} does not exist in shape {}; expected -rank to rank - 1", op, axis, shape);
  return axis < 0 ? axis + shape.rank() : axis;
}

const char* to_string(DType dtype) {
  constexpr std::array names{"float32", "float64", "int32", "q8_0"};
  return names[static_cast<std::size_t>(dtype)];
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
      return 8;
    case DType::q8_0:
      return sizeof(Q8Block);
  }
  throw_unhandled("DType");
}

std::size_t bytes_of(DType dtype, std::int64_t elements) {
  if (dtype != DType::q8_0) return elements * size_of(dtype);
  require(elements % Q8Block::size == 0, "array: {} elements of q8_0; expected a multiple of {}",
          elements, Q8Block::size);
  return elements / Q8Block::size * size_of(dtype);
}

void require_dtype(DType actual, DType expected) {
  require(actual == expected, "array: dtype {}; expected {}", actual, expected);
}

void throw_not_floating(DType dtype) {
  throw std::invalid_argument(
      fmt::format("dispatch: dtype {}; expected float32 or float64", dtype));
}

void require_array(const char* op, const char* name, const Array& array, DType dtype,
                   const Shape& shape) {
  require(array.dtype() == dtype && array.shape() == shape, "{}: {} is {}; expected {} {}", op,
          name, array, dtype, shape);
}

namespace {

void require_whole_blocks(const Shape& shape, DType dtype) {
  require(dtype != DType::q8_0 || (shape.rank() > 0 && shape[-1] % Q8Block::size == 0),
          "array: shape {} in q8_0; expected a last axis that is a multiple of {}", shape,
          Q8Block::size);
}

std::shared_ptr<std::byte[]> memory_for(const Shape& shape, DType dtype) {
  require_whole_blocks(shape, dtype);
  try {
    return allocate(bytes_of(dtype, shape.elements()));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("{} {} array: {}", dtype, shape, error.what()));
  }
}

// Calls body.operator()<T>() with the scalar type of any dtype but q8_0.
template <class Body>
void dispatch_any(DType dtype, Body&& body) {
  if (dtype == DType::int32) return body.template operator()<std::int32_t>();
  dispatch(dtype, body);
}

constexpr std::int64_t bytes_a_piece = 1 << 16;

// Number of blocks of a piece of a parallel loop.
constexpr std::int64_t blocks_a_piece = bytes_a_piece / (Q8Block::size * sizeof(float));

void write_blocks(std::span<const float> from, Q8Block* to) {
  parallel_for(std::ssize(from) / Q8Block::size, blocks_a_piece, [=](auto begin, auto end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = to_q8_block(from.subspan(i * Q8Block::size).first<Q8Block::size>());
  });
}

void read_blocks(const Q8Block* from, std::span<float> to) {
  parallel_for(std::ssize(to) / Q8Block::size, blocks_a_piece, [=](auto begin, auto end) {
    read_q8_blocks(from + begin, (end - begin) * Q8Block::size, &to[begin * Q8Block::size]);
  });
}

// Returns how many rows of `row` bytes a piece of a parallel loop has.
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
  dispatch_any(dtype, [&]<class T>() {
    T* to = array.mutable_values<T>().data();
    parallel_for(array.size(), rows_a_piece(sizeof(T)), [=](std::int64_t begin, std::int64_t end) {
      std::fill(to + begin, to + end, T(value));
    });
  });
  return array;
}

template <Element T>
Array Array::of(const std::vector<T>& values, const Shape& shape) {
  require(std::ssize(values) == shape.elements(), "array: {} values for shape {}; expected {}",
          values.size(), shape, shape.elements());
  Array array(shape, dtype_of<T>);
  std::ranges::copy(values, array.mutable_values<T>().begin());
  return array;
}

template Array Array::of(const std::vector<float>&, const Shape&);
template Array Array::of(const std::vector<double>&, const Shape&);
template Array Array::of(const std::vector<std::int32_t>&, const Shape&);

Array Array::reshaped(const Shape& shape) const {
  require(shape.elements() == size(),
          "reshape: {} to {}: the numbers of elements differ; expected equal numbers", shape_,
          shape);
  require_whole_blocks(shape, dtype_);
  Array array = *this;
  array.shape_ = shape;
  return array;
}

Array Array::part(std::int64_t begin, std::int64_t end) const {
  require(!empty(), "part: an empty Array(); expected one with memory");
  require(0 <= begin && begin <= end && end <= size(),
          "part: [{}, {}) is not a range of {} elements; expected 0 <= begin <= end <= size", begin,
          end, size());
  require_whole_blocks({end - begin}, dtype_);
  Array array;
  array.shape_ = {end - begin};
  array.dtype_ = dtype_;
  array.buffer_ = {buffer_, buffer_.get() + bytes_of(dtype_, begin)};
  return array;
}

Array Array::clone() const {
  Array array(shape_, dtype_);
  array.copy_from(*this);
  return array;
}

void Array::copy_from(const Array& source) {
  require(!empty() && !source.empty(), "copy_from: an empty Array(); expected ones with memory");
  require(source.shape_ == shape_ && source.dtype_ == dtype_,
          "copy_from: {} into {}: dtype or shape differ; expected equal ones", source, *this);
  std::byte* to = mutable_raw();
  parallel_for(bytes(), bytes_a_piece, [=, from = source.raw()](auto begin, auto end) {
    std::memcpy(to + begin, from + begin, end - begin);
  });
}

Array Array::select(const std::vector<std::int64_t>& rows) const {
  require(rank() > 0, "select: an array of shape (); expected rows");
  require(dtype_ != DType::q8_0 || rank() > 1, "select: {} in q8_0; expected rows", shape_);
  Shape shape = shape_;
  shape[0] = std::ssize(rows);
  Array selected(shape, dtype_);
  const std::size_t row = bytes() / std::max<std::int64_t>(1, dim(0));
  for (const std::int64_t i : rows)
    require(i >= 0 && i < dim(0), "select: row {} of shape {}; expected 0 or more and below {}", i,
            shape_, dim(0));
  std::byte* to = selected.mutable_raw();
  parallel_for(std::ssize(rows), rows_a_piece(row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(raw() + rows[i] * row, row, to + i * row);
  });
  return selected;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  require(!empty(), "to: an empty Array(); expected one with memory");
  const bool either_is_quantized = dtype == DType::q8_0 || dtype_ == DType::q8_0;
  if (either_is_quantized && dtype != DType::float32 && dtype_ != DType::float32)
    return to(DType::float32).to(dtype);
  Array array(shape_, dtype);
  if (is_dry_run()) return array;
  if (dtype == DType::q8_0) {
    write_blocks(values<float>(), reinterpret_cast<Q8Block*>(array.mutable_raw()));
    return array;
  }
  if (dtype_ == DType::q8_0) {
    read_blocks(reinterpret_cast<const Q8Block*>(raw()), array.mutable_values<float>());
    return array;
  }
  dispatch_any(dtype_, [&]<class From>() {
    dispatch_any(dtype, [&]<class To>() {
      std::ranges::transform(values<From>(), array.mutable_values<To>().begin(),
                             [](From value) { return To(value); });
    });
  });
  return array;
}

}  // namespace tapestry
