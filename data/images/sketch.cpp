#include "data/images/sketch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr int scanlines = 4;  // a row of pixels; along the row, coverage is exact

// As std::hypot, which needs glibc 2.35.
double distance_between(Point a, Point b) {
  const double x = b.x - a.x, y = b.y - a.y;
  return std::sqrt(x * x + y * y);
}

Point toward(Point from, Point to, double distance) {
  const double length = distance_between(from, to);
  const double part = length > 0 ? std::min(0.5, distance / length) : 0;
  return {std::lerp(from.x, to.x, part), std::lerp(from.y, to.y, part)};
}

}  // namespace

Outline rounded(const Outline& corners, double radius) {
  const std::vector<Point>& from = corners.points;
  Outline outline;
  outline.points.reserve(4 * from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Point start = toward(from[i], from[(i + from.size() - 1) % from.size()], radius);
    const Point end = toward(from[i], from[(i + 1) % from.size()], radius);
    for (const double t : {0.0, 1.0 / 3, 2.0 / 3, 1.0}) {
      const double a = (1 - t) * (1 - t), b = 2 * t * (1 - t), c = t * t;
      outline.points.push_back(
          {a * start.x + b * from[i].x + c * end.x, a * start.y + b * from[i].y + c * end.y});
    }
  }
  return outline;
}

Outline joined(Outline first, const Outline& second) {
  first.points.insert(first.points.end(), second.points.begin(), second.points.end());
  return first;
}

Outline mirrored(Outline outline) {
  for (Point& point : outline.points) point.x = -point.x;
  return outline;
}

Outline unfolded(const Outline& half) {
  Outline left = mirrored(half);
  std::reverse(left.points.begin(), left.points.end());
  return joined(half, left);
}

Outline band(const Outline& path, double width) {
  const std::vector<Point>& at = path.points;
  Outline outline;
  outline.points.resize(2 * at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const Point before = at[i > 0 ? i - 1 : 0], after = at[std::min(i + 1, at.size() - 1)];
    const double length = distance_between(before, after);
    const double x = 0.5 * width * (after.y - before.y) / std::max(length, 1e-6);
    const double y = 0.5 * width * (after.x - before.x) / std::max(length, 1e-6);
    outline.points[i] = {at[i].x - x, at[i].y + y};
    outline.points[2 * at.size() - 1 - i] = {at[i].x + x, at[i].y - y};
  }
  return outline;
}

// Fills the patch by scanlines. Where a scanline crosses an edge, the winding number to the right
// changes by one. A running sum along each row gives the winding number, whose magnitude is the
// coverage.
void paint(const Patch& patch, std::span<float> pixels, int side) {
  constexpr int most = 32;
  require(side >= 1 && side <= most && std::ssize(pixels) == side * side,
          "paint: {} pixels; expected ({}, {}), at most ({}, {})", pixels.size(), side, side, most,
          most);
  std::array<float, most*(most + 2)> changes{};
  int first = side, last = -1;
  const std::vector<Point>& corners = patch.outline.points;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    Point a = corners[i], b = corners[(i + 1) % corners.size()];
    const float change = (a.y < b.y ? 1.0f : -1.0f) / scanlines;
    if (a.y > b.y) std::swap(a, b);
    const int start = std::max(0, static_cast<int>(std::ceil(a.y * scanlines - 0.5)));
    const int stop = std::min(side * scanlines, static_cast<int>(std::ceil(b.y * scanlines - 0.5)));
    if (start >= stop) continue;
    first = std::min(first, start / scanlines);
    last = std::max(last, (stop - 1) / scanlines);
    const double slope = (b.x - a.x) / (b.y - a.y);
    for (int line = start; line < stop; ++line) {
      const double x = a.x + slope * ((line + 0.5) / scanlines - a.y);
      const auto inside = static_cast<float>(std::clamp(x, 0.0, static_cast<double>(side)));
      const int column = static_cast<int>(inside);
      const float rest = inside - static_cast<float>(column);
      float* at = &changes[line / scanlines * (side + 2) + column];
      at[0] += change * (1.0f - rest);
      at[1] += change * rest;
    }
  }
  const auto value = static_cast<float>(patch.value);
  for (int row = first; row <= last; ++row) {
    float winding = 0.0f;
    for (int column = 0; column < side; ++column) {
      winding += changes[row * (side + 2) + column];
      const float coverage = std::min(1.0f, std::abs(winding));
      float& pixel = pixels[row * side + column];
      pixel += coverage * (patch.opaque ? value - pixel : pixel * (value - 1.0f));
    }
  }
}

}  // namespace tapestry
