#pragma once

#include <string>
#include <variant>
#include <vector>

#include "autograd/array.hpp"

// Figures are values: what is to be seen, whatever it is drawn by.
namespace tapestry {

// A matrix as colours, 0 white and `darkest` dark, with all labels or none.
struct HeatMap {
  std::string title{};
  Array values{};  // (rows, columns) float32
  double darkest = 1;
  std::vector<std::string> row_labels{}, column_labels{};
};
struct HeatMaps {
  std::vector<std::vector<HeatMap>> rows{};  // from the top
  // What the dark end of the key stands for, where each map has a darkest value of its own, which
  // its title says; empty: 1, of all maps.
  std::string darkest_label{};
};

// A line over an axis of steps, or of what else rises evenly.
struct Line {
  std::string name{};
  double first = 0;  // the place of the first value
  std::vector<double> values{};
  double spacing = 1;  // from one value to the next; 0: they stand one above another
};
struct LineChart {
  std::string title{};
  std::vector<Line> lines{};  // at most 4, told apart by colour; those without values are not drawn
};
// Charts one below another. The first has the legend, for all of them.
struct LineCharts {
  std::vector<LineChart> charts{};
  std::string steps{};  // the name of the axis
};

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

// Images (N, H, W) float32 in [0, 1], 0 black, row by row in a grid of `columns`.
struct PictureGrid {
  Array images{};
  std::int64_t columns = 1;
};

using Figure = std::variant<HeatMaps, LineCharts, Scatter, PictureGrid>;

}  // namespace tapestry
