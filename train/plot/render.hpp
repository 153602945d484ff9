#pragma once

#include <string>
#include <vector>

#include "train/plot/figure.hpp"

namespace tapestry {

// Returns √(w / max) of weights (H, rows, columns), where max is the largest weight of each of the
// H matrices: the colors of attention maps, from 0 to 1, in which small weights are visible beside
// large ones.
Array attention_colors(const Array& weights);

enum class Format { png, svg };
std::string ending_of(Format format);  // returns ".png" or ".svg"

// Returns the formats of a figure: PNG for a grid of pictures, PNG and SVG for all others.
std::vector<Format> formats_of(const Figure& figure);

// Returns the bytes of a file of this format, which must be one of the figure's. Throws
// std::runtime_error if cairo, which draws PNG of all but pictures, cannot be loaded or fails, and
// std::invalid_argument for a figure that cannot be drawn.
std::string render(const Figure& figure, Format format);

// Returns the bytes of a PNG: each image enlarged to 2H × 2W pixels, a dark pixel between them,
// values clamped to [0, 1]. Throws std::invalid_argument for images of another shape, and
// std::runtime_error if libpng cannot write the file.
std::string to_png(const PictureGrid& grid);

}  // namespace tapestry
