#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tapestry {

// The extent of each axis, outermost first. Held in place: copying a shape allocates nothing.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(extents.begin(), extents.end()) {}
  Shape(const std::int64_t* begin, const std::int64_t* end);

  int rank() const { return rank_; }
  std::int64_t elements() const;  // the product of all extents; 1 for a scalar

  // Negative axes count from the last one.
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

std::string to_string(const Shape& shape);  // "(2, 3)"

// NumPy's rule: axes align from the last; an extent of 1 stretches. Throws std::invalid_argument
// naming `op` and both shapes when they do not fit.
Shape broadcast(const char* op, const Shape& a, const Shape& b);
bool broadcasts(const Shape& a, const Shape& b);  // whether they fit

// An axis in [-rank, rank) as one in [0, rank). Throws std::invalid_argument naming `op`.
int normalize_axis(const char* op, int axis, const Shape& shape);

}  // namespace tapestry
