#pragma once

#include "train/plot/figure.hpp"

namespace tapestry {

enum class Format { png, svg };
std::string ending_of(Format format);  // ".png"

// What a figure can be drawn as: a grid of pictures as PNG alone, all others as either.
std::vector<Format> formats_of(const Figure& figure);

// The bytes of a file of this format, which must be one of the figure's. std::runtime_error where
// gnuplot, which draws all but pictures, is missing or fails.
std::string render(const Figure& figure, Format format);

}  // namespace tapestry
