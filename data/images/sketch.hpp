#pragma once

#include <initializer_list>
#include <span>
#include <vector>

// Outlines, and the rasterizer that fills them, for the synthetic images of clothes.
namespace tapestry {

inline constexpr int picture_side = 28;  // height and width in pixels

struct Point {
  double x, y;  // in units of about a pixel; y increases downward
};

struct Outline {
  Outline() = default;
  Outline(std::initializer_list<double> coordinates) {  // x, y, x, y, ...
    for (const double* at = coordinates.begin(); at != coordinates.end(); at += 2)
      points.push_back({at[0], at[1]});
  }
  std::vector<Point> points;
};

// Returns the outline with each corner replaced by a quadratic Bezier curve, which begins and ends
// at a distance of `radius` from the corner.
Outline rounded(const Outline& corners, double radius);
Outline joined(Outline first, const Outline& second);
Outline mirrored(Outline outline);                // returns the outline reflected at x = 0
Outline unfolded(const Outline& half);            // returns a symmetric outline of its right half
Outline band(const Outline& path, double width);  // returns the outline of a band along a path

struct Patch {
  Outline outline;
  double value;  // the brightness of the patch if it is opaque, else a factor for what it covers
  bool opaque;
};

// Fills a patch in pixels (side, side) by winding number, weighted by the share of each pixel that
// the outline covers. Throws std::invalid_argument for other pixels, and for more than 32 rows.
void paint(const Patch& patch, std::span<float> pixels, int side = picture_side);

}  // namespace tapestry
