#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/plot/figure.hpp"

// The surface that figures are drawn on, and the figures' layout. Lengths are pixels, and y grows
// downwards.
namespace tapestry {

struct Extent {
  double width = 0, height = 0;
};
struct Position {
  double x = 0, y = 0;
};
struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};
using Color = std::uint32_t;  // 0xRRGGBB

struct Stroke {
  Color color = 0;
  double width = 1;
};
struct Marker {
  Color color = 0;
  double size = 1;         // diameter of a disc, or side of a square
  bool is_square = false;  // otherwise a disc
};
struct TextStyle {
  enum class Anchor { begin, middle, end };
  Anchor anchor = Anchor::begin;  // the part of the text that is at its position
  bool is_upright = false;        // reads from the bottom to the top
  double size = 13;
};

// A white surface. Text is UTF-8, and its position is on the baseline.
class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(std::span<const Position> points, const Stroke& stroke) = 0;
  void line(std::initializer_list<Position> points, const Stroke& stroke) {
    line(std::span(points.begin(), points.size()), stroke);
  }
  virtual void markers(std::span<const Position> points, const Marker& marker) = 0;
  virtual void text(const Position& position, const std::string& text, const TextStyle& style) = 0;
  // Fills a box with cells of equal size; `colors` has them row by row.
  virtual void cells(const Box& box, std::int64_t columns, std::span<const Color> colors) = 0;
  virtual std::string finish() = 0;  // returns the bytes of the file; the last call
};

std::unique_ptr<Canvas> svg_canvas(const Extent& extent);

// The name of the plug-in for PNG, and of the PngCanvas object that it exports. Its function throws
// std::runtime_error if cairo fails.
struct PngCanvas {
  std::unique_ptr<Canvas> (*open)(const Extent& extent);
};
inline constexpr const char *cairo_plugin = "cairo", *png_canvas_name = "tapestry_png_canvas";

// Returns the text with what XML and HTML give a meaning replaced by entities.
std::string markup_escaped(std::string_view text);

// --- layout: the size of a figure, and its drawing ---

Extent extent_of(const HeatMaps& maps);
Extent extent_of(const LineCharts& figure);
Extent extent_of(const Scatter& scatter);
Extent extent_of(const ArcTable& table);
// Throw std::invalid_argument for a figure that cannot be drawn.
void draw(const HeatMaps& maps, Canvas& canvas);
void draw(const LineCharts& figure, Canvas& canvas);
void draw(const Scatter& scatter, Canvas& canvas);
void draw(const ArcTable& table, Canvas& canvas);

// Returns a label on one line, in which line ends, tabs and a lone space are symbols; of a text
// with more than `most` characters the beginning and "…".
std::string label_text(const std::string& text, std::size_t most);
// Returns an estimate of the width of a text in pixels.
double width_of(const std::string& text, double size = TextStyle{}.size);

// Returns the multiples of 1, 2 or 5 times a power of ten from low to high, at most most + 1.
std::vector<double> round_ticks(double low, double high, int most);

}  // namespace tapestry
