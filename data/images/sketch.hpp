#pragma once

#include <initializer_list>
#include <span>
#include <vector>

// Outlines of small pictures, and the painter that fills them: what clothes are drawn with.
namespace tapestry {

inline constexpr int picture_side = 28;  // pixels, either way

struct Point {
  double x, y;  // y points down; one unit is about a pixel
};

struct Outline {
  Outline() = default;
  Outline(std::initializer_list<double> coordinates) {  // x, y, x, y, ...
    for (const double* at = coordinates.begin(); at != coordinates.end(); at += 2)
      points.push_back({at[0], at[1]});
  }
  std::vector<Point> points;
};

// Each corner becomes a quadratic Bezier curve that leaves the edges `radius` before it.
Outline rounded(const Outline& corners, double radius);
Outline joined(Outline first, const Outline& second);
Outline mirrored(Outline outline);                // at x = 0
Outline unfolded(const Outline& half);            // the right half of a symmetric one made whole
Outline band(const Outline& path, double width);  // along a path

struct Patch {
  Outline outline;
  double value;  // the brightness it covers what is below with, or else multiplies it by
  bool opaque;
};

// pixels: picture_side rows of as many. Fills by winding number, with the share of each pixel that
// the outline covers.
void paint(const Patch& patch, std::span<float> pixels);

}  // namespace tapestry
