#pragma once

#include <string>
#include <vector>

#include "autograd/array.hpp"

// Pictures that gnuplot draws, as PNG or SVG by the ending of the path. InputError for another
// ending; std::runtime_error where gnuplot is missing or fails. A picture that exists is replaced
// whole or not at all.
namespace tapestry {

// A matrix as colours, 0 white and `darkest` dark, with all labels or none.
struct HeatMap {
  std::string title{};
  Array values{};  // (rows, columns) float32
  double darkest = 1;
  std::vector<std::string> row_labels{}, column_labels{};
};
// Rows of maps, from the top.
void draw_heat_maps(const std::vector<std::vector<HeatMap>>& rows, const std::string& path);

// Lines over one axis of steps: each value stands one step after the one before.
struct Line {
  std::string name{};
  double first = 0;  // the step of the first value
  std::vector<double> values{};
};
struct LineChart {
  std::string title{};
  std::vector<Line> lines{};  // at most 4, told apart by colour; those without values are not drawn
};
// Charts one below another, over an axis of that name. The first has the legend, for all of them.
void draw_lines(const std::vector<LineChart>& charts, const std::string& steps,
                const std::string& path);

// Points (N, 2) or (N, 3) float32 of one colour, under one name in the legend.
struct Cloud {
  std::string name{};
  Array points{};
};
struct Scatter {
  std::string title{};
  std::vector<std::string> axes{};  // their names: two or three
  std::vector<Cloud> clouds{};
};
void draw_scatter(const Scatter& scatter, const std::string& path);

}  // namespace tapestry
