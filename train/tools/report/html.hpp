#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/adjacency.hpp"
#include "data/json.hpp"
#include "train/plot/figure.hpp"

// Pieces of a page: HTML, data for its scripts, and plots. What comes from a run, its data or its
// user goes in as text alone.
namespace tapestry {

// Shows the text as it is: markup has no effect, and what a terminal would obey is written out.
std::string html_text(std::string_view text);

std::string base64(std::string_view bytes);  // RFC 4648, section 4

// An <img> of a grid, whose text for those who do not see it is `shows`.
std::string html_pictures(const PictureGrid& grid, std::string_view shows);

// Rows of texts, the first of them the heads; columns of numbers stand to the right.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

// Facts, a row each: their names and what they are.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

// Data for the page's scripts: <script type="application/json" id="…">, which no browser runs.
std::string html_data(const std::string& id, const JsonValue& data);

// <details> that is closed, with HTML in it.
std::string html_details(std::string_view summary, const std::string& html);

// --- arrays as the page's arrayOf() reads them: dtype, shape, and bytes in base64 ---

JsonValue as_floats(const Array& array);
JsonValue as_halves(const Array& array);  // float32, rounded to float16
JsonValue as_bytes(const Array& array);   // of [0, 1], in 255 steps
JsonValue as_integers(const std::vector<std::int32_t>& values, const Shape& shape);
JsonValue as_labels(const std::vector<std::string>& texts);  // each of one line

// --- plots as SVG, for readers without scripts; their colors are the page's (svg.cpp) ---

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
