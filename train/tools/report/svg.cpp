#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "train/tools/report/html.hpp"

namespace tapestry {
namespace {

constexpr double width = 640, height = 240, left = 64, right = 628, top = 12, bottom = 212;
constexpr int colors = 10;  // number of colors of the page

// Returns whether a point can be drawn: it has no NaN and no number near the largest double.
bool is_finite(const PlotPoint& point) {
  const auto fits = [](double value) { return std::abs(value) < 1e300; };
  return fits(point.x) && fits(point.low) && fits(point.y) && fits(point.high);
}

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool is_log = false;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Returns the position of a value in [0, 1]; 0.5 if low and high are equal.
  double share(double value) const {
    return high > low ? (place(value) - place(low)) / (place(high) - place(low)) : 0.5;
  }
  double place(double value) const { return is_log ? std::log10(value) : value; }
};

// The extents of a plot, and the positions of values in it.
struct Axes {
  Extent x, y;
  double across(double value) const { return left + x.share(value) * (right - left); }
  double up(double value) const { return bottom - y.share(value) * (bottom - top); }
};

std::string polyline(const Axes& axes, const PlotLine& line, std::size_t color) {
  std::string above, below, middle;
  bool has_band = false;
  for (const PlotPoint& point : line.points) {
    if (!is_finite(point)) continue;
    has_band = has_band || point.low < point.high;
    const double x = axes.across(point.x);
    middle += fmt::format("{:.1f},{:.1f} ", x, axes.up(point.y));
    above += fmt::format("{:.1f},{:.1f} ", x, axes.up(point.high));
    below.insert(0, fmt::format("{:.1f},{:.1f} ", x, axes.up(point.low)));
  }
  std::string svg;
  if (has_band)
    svg = fmt::format("<polygon class=\"s{}\" points=\"{}{}\"/>\n", color % colors, above, below);
  if (line.points.size() == 1 && !middle.empty())
    return fmt::format("<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                       color % colors, axes.across(line.points[0].x), axes.up(line.points[0].y));
  return svg + fmt::format("<polyline class=\"s{}\" points=\"{}\"/>\n", color % colors, middle);
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     html_text(text));
}

// Returns the beginning of a figure with axes.
std::string axes_svg(const std::string& title, const std::string& x_name, const Axes& axes) {
  const std::string svg = fmt::format(
      "<figure><figcaption>{0}</figcaption><svg class=\"plot\" viewBox=\"0 0 {1} {2}\" "
      "role=\"img\" aria-label=\"{0}\">\n<path d=\"M{3} {4}V{5}H{6}\"/>\n",
      html_text(title), width, height, left, top, bottom, right);
  return svg + label(left - 6, top + 8, "end", fmt::format("{:.4g}", axes.y.high)) +
         label(left - 6, bottom, "end", fmt::format("{:.4g}", axes.y.low)) +
         label(left, bottom + 18, "start", fmt::format("{:.6g}", axes.x.low)) +
         label(right, bottom + 18, "end", fmt::format("{:.6g}", axes.x.high)) +
         label((left + right) / 2, bottom + 18, "middle", x_name);
}

std::string legend(const std::vector<std::string>& names) {
  std::string html = "<span class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    html += fmt::format("<span class=\"key s{}\">{}</span> ", i % colors, html_text(names[i]));
  return html + "</span></figure>\n";
}

}  // namespace

std::string svg_lines(const std::string& title, const std::string& x_name,
                      const std::vector<PlotLine>& lines) {
  Axes axes;
  for (const PlotLine& line : lines)
    for (const PlotPoint& point : line.points)
      if (is_finite(point)) {
        axes.x.include(point.x);
        axes.y.include(point.low);
        axes.y.include(point.high);
      }
  if (axes.x.low > axes.x.high) return "";
  std::string svg = axes_svg(title, x_name, axes);
  for (std::size_t i = 0; i < lines.size(); ++i) svg += polyline(axes, lines[i], i);
  std::vector<std::string> names;
  for (const PlotLine& line : lines) names.push_back(line.name);
  return svg + "</svg>" + legend(names);
}

std::string svg_dots(const std::string& title, const std::string& x_name,
                     const std::vector<PlotDot>& dots, const std::vector<std::string>& names) {
  const auto is_shown = [](const PlotDot& dot) { return is_finite({dot.x, dot.y, dot.y, dot.y}); };
  Axes axes;
  for (const PlotDot& dot : dots)
    if (is_shown(dot)) {
      axes.x.include(dot.x);
      axes.y.include(dot.y);
    }
  if (axes.x.low > axes.x.high) return "";
  for (Extent* axis : {&axes.x, &axes.y})
    axis->is_log = axis->low > 0 && axis->high > 30 * axis->low;
  std::string svg = axes_svg(axes.y.is_log ? title + " (logarithmic)" : title,
                             axes.x.is_log ? x_name + " (logarithmic)" : x_name, axes);
  for (const PlotDot& dot : dots)
    if (is_shown(dot))
      svg += fmt::format(
          "<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>\n",
          dot.color % colors, axes.across(dot.x), axes.up(dot.y), html_text(dot.name));
  return svg + "</svg>" + legend(names);
}

std::string svg_nodes(const std::string& title, const PlotNodes& nodes) {
  constexpr double side = 480, margin = 10;
  const auto places = nodes.places.values<float>();
  const std::int64_t N = nodes.places.dim(0);
  std::array<Extent, 2> extents;
  for (std::size_t i = 0; i < places.size(); ++i) extents[i % 2].include(places[i]);
  const auto place = [&](std::int64_t node, int axis) {
    return margin + extents[axis].share(places[2 * node + axis]) * (side - 2 * margin);
  };
  std::string svg = fmt::format(
      "<figure><figcaption>{0}</figcaption><svg class=\"plot nodes\" viewBox=\"0 0 {1} {1}\" "
      "role=\"img\" aria-label=\"{0}\">\n",
      html_text(title), side);
  for (const auto& [from, to] : nodes.edges)
    svg += fmt::format("<path d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}\"/>", place(from, 0), place(from, 1),
                       place(to, 0), place(to, 1));
  for (std::int64_t i = 0; i < N; ++i)
    svg += fmt::format("<circle class=\"s{}\" cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{}\"/>",
                       nodes.classes.empty() ? 0 : nodes.classes[i] % colors, place(i, 0),
                       place(i, 1), N > 200 ? 2 : 5);
  return svg + "</svg></figure>\n";
}

}  // namespace tapestry
