#pragma once

#include <string>
#include <vector>

#include "autograd/adjacency.hpp"

// Plots as SVG, for readers without scripts. Their colours are the page's.
namespace tapestry {

struct PlotPoint {
  double x = 0, low = 0, y = 0, high = 0;  // low and high: of a band, else y
};
struct PlotLine {
  std::string name{};
  std::vector<PlotPoint> points{};
};

// Lines over a common axis, with a legend; points that are not finite are left out.
std::string svg_lines(const std::string& title, const std::string& x_name,
                      const std::vector<PlotLine>& lines);

// Points (N, 2), each of a class, and edges between them; their places are scaled to the plot.
struct PlotNodes {
  Array places{};                       // (N, 2) float32
  std::vector<std::int32_t> classes{};  // N, or none
  std::vector<Edge> edges{};
};
std::string svg_nodes(const std::string& title, const PlotNodes& nodes);

}  // namespace tapestry
