#pragma once

#include "train/plot/render.hpp"

namespace tapestry {

// Draws what is not a grid of pictures. Text of a figure is never a command: it stands in quotes,
// and gnuplot is started without a shell. std::runtime_error where it is missing or fails.
std::string draw_by_gnuplot(const Figure& figure, Format format);

}  // namespace tapestry
