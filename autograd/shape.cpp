#include "autograd/shape.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "autograd/check.hpp"

namespace tapestry {

Shape::Shape(const std::int64_t* begin, const std::int64_t* end) {
  for (const std::int64_t* extent = begin; extent != end; ++extent) push_back(*extent);
}

std::int64_t Shape::elements() const {
  return std::accumulate(begin(), end(), std::int64_t{1}, std::multiplies<>());
}

void Shape::push_back(std::int64_t extent) {
  require(rank_ < max_rank, "shape: at most {} axes", max_rank);
  require(extent >= 0, "shape: an extent of {}", extent);
  extents_[rank_++] = extent;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

// Not by fmt, which is slower: ops name their shapes before they know of a fault.
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
  require(broadcasts(a, b), "{}: shapes {} and {} do not broadcast", op, to_string(a),
          to_string(b));
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int axis = -1; axis >= -shorter.rank(); --axis)
    if (result[axis] == 1) result[axis] = shorter[axis];
  return result;
}

int normalize_axis(const char* op, int axis, const Shape& shape) {
  require(axis >= -shape.rank() && axis < shape.rank(), "{}: axis {} of shape {}", op, axis,
          to_string(shape));
  return axis < 0 ? axis + shape.rank() : axis;
}

}  // namespace tapestry
