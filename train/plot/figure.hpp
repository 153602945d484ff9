#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"

// Figures as values, which render.hpp draws.
namespace tapestry {

// A matrix shown as colors, with labels for all rows and columns or none.
struct HeatMap {
  std::string title{};
  // (rows, columns) float32, from 0 (white) to 1 (dark); or an image, (C, rows, columns), C = 1
  // (gray, 0 black) or 3 (red, green, blue).
  Array values{};
  std::vector<std::string> row_labels{}, column_labels{};
  std::string row_axis{}, column_axis{};  // the axes' titles
};
struct HeatMaps {
  std::vector<std::vector<HeatMap>> rows{};  // rows of maps, top to bottom
  // 2 or more evenly spaced labels of colors; empty: no scale is drawn.
  std::vector<std::string> scale = {"0", "0.5", "1"};
};

// A line over an axis with even spacing, such as steps.
struct Line {
  std::string name{};
  double first = 0;  // position of the first value
  std::vector<double> values{};
  double spacing = 1;  // distance between values; 0: a vertical line
};
struct LineChart {
  std::string title{};
  std::vector<Line> lines{};  // at most 4, each in its color; empty lines are not drawn
};
// Charts below each other; the first has the legend of all.
struct LineCharts {
  std::vector<LineChart> charts{};
  std::string steps{};  // name of the common axis
};

// Points (N, 2) or (N, 3), float32, with one color and one entry in the legend.
struct Cloud {
  std::string name{};
  Array points{};
};
struct Scatter {
  std::string title{};
  std::vector<std::string> axes{};  // names of the two or three axes
  std::vector<Cloud> clouds{};
};

// Images (N, H, W), or (N, C, H, W) with C = 1 (gray) or 3 (red, green, blue), float32 in [0, 1],
// 0 black, row by row in a grid of `columns`.
struct PictureGrid {
  Array images{};
  std::int64_t columns = 1;
};

// A table whose rows are joined by arcs, which are drawn to the left of it.
struct ArcTable {
  struct Arc {
    std::size_t from = 0, to = 0;  // rows, from < to
  };
  std::string title{};
  std::vector<std::string> columns{};            // heads
  std::vector<std::vector<std::string>> rows{};  // a cell for each column
  std::vector<Arc> arcs{};
};

using Figure = std::variant<HeatMaps, LineCharts, Scatter, PictureGrid, ArcTable>;

// Returns an image (C, height, width) in light gray, on which patches are red by their weights,
// (rows, columns), divided by the largest: (3, height, width).
Array attention_over(const Array& image, const Array& weights);
// Returns a map of an image, and one of attention_over() for the weights (words, rows, columns) of
// each word.
std::vector<HeatMap> attention_of_words(const std::string& title, const Array& image,
                                        const std::vector<std::string>& words,
                                        const Array& weights);

// Returns positions (N, 2), float32 in [0, 1], of a graph's nodes, in which joined nodes are near
// each other: springs along the edges, and a repulsion between nodes nearer than two ideal
// distances (Fruchterman & Reingold 1991). The result is deterministic. The time is quadratic in
// the number of nodes: 3000 take seconds.
Array lay_out(std::int64_t nodes, std::span<const Edge> edges);

}  // namespace tapestry
