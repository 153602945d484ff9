#pragma once

#include <string>
#include <vector>

#include "autograd/array.hpp"

// Pictures that gnuplot draws, as PNG or SVG by the ending of the path. InputError for another
// ending; std::runtime_error where gnuplot is missing or fails. A picture that exists is replaced
// whole or not at all.
namespace tapestry {

// A matrix as colours, 0 white and 1 dark.
struct HeatMap {
  std::string title{};
  Array values{};  // (rows, columns) float32
  std::vector<std::string> row_labels{}, column_labels{};
};
// Rows of maps, from the top.
void draw_heat_maps(const std::vector<std::vector<HeatMap>>& rows, const std::string& path);

}  // namespace tapestry
