#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "autograd/check.hpp"
#include "train/plot/canvas.hpp"

namespace tapestry {
namespace {

using enum TextStyle::Anchor;

constexpr double to_baseline = 4.5;  // from the middle of a line of text
constexpr Color gray = 0x999999, light_gray = 0xe6e6e6;

std::string tick_text(double value) { return fmt::format("{:.10g}", value); }

// A range of values, and the pixels that it is drawn over.
struct Axis {
  double begin = 0, end = 1, low = INFINITY, high = -INFINITY;

  void include(double value) {
    if (!(std::abs(value) < 1e300)) return;  // the difference of others may not be finite
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Makes the range one that can be drawn, with a margin on both sides.
  void complete(double margin = 0) {
    if (low > high) low = 0, high = 1;
    const double more = high > low ? margin * (high - low) : std::max(0.1 * std::abs(low), 0.5);
    low -= more;
    high += more;
  }
  bool holds(double value) const { return value >= low && value <= high; }
  double operator()(double value) const {
    return begin + (value - low) / (high - low) * (end - begin);
  }
};

// --- line charts ---

constexpr std::array<Color, 4> line_colors = {0x0b2545, 0x9aa5b1, 0xd1495b, 0x4a90c8};
constexpr double chart_width = 900, chart_left = 81, chart_right = 882, chart_height = 130;
constexpr double legend_height = 40, axis_height = 56;

Axis steps_of(const std::vector<LineChart>& charts) {
  Axis x{chart_left, chart_right};
  for (const LineChart& chart : charts)
    for (const Line& line : chart.lines)
      if (!line.values.empty())
        for (const std::size_t i : {std::size_t{0}, line.values.size() - 1})
          x.include(line.first + static_cast<double>(i) * line.spacing);
  x.complete();
  return x;
}

Axis values_of(const LineChart& chart, double top) {
  Axis y{top + chart_height - 14, top};
  for (const Line& line : chart.lines)
    for (const double value : line.values) y.include(value);
  y.complete(0.05);
  return y;
}

// The axes of a chart.
struct Axes {
  Axis x, y;
};

// Draws a line, with gaps where a value is not finite.
void draw_line(const Line& line, const Axes& axes, Color color, Canvas& canvas) {
  std::vector<Position> points;
  const auto finish = [&] {
    if (points.size() == 1) canvas.markers(points, {.color = color, .size = 4});
    if (points.size() > 1) canvas.line(points, {.color = color, .width = 1.6});
    points.clear();
  };
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    const double step = line.first + static_cast<double>(i) * line.spacing;
    if (axes.x.holds(step) && axes.y.holds(line.values[i]))
      points.push_back({axes.x(step), axes.y(line.values[i])});
    else
      finish();
  }
  finish();
}

// Draws the grid, the ticks of the values, and the axes; `labels_steps`: also the ticks of x.
void draw_axes(const Axes& axes, bool labels_steps, Canvas& canvas) {
  const auto& [x, y] = axes;
  for (const double value : round_ticks(y.low, y.high, 5)) {
    canvas.line({{x.begin, y(value)}, {x.end, y(value)}}, {.color = light_gray});
    canvas.text({x.begin - 8, y(value) + to_baseline}, tick_text(value), {.anchor = end});
  }
  for (const double value : round_ticks(x.low, x.high, 10)) {
    canvas.line({{x(value), y.begin}, {x(value), y.end}}, {.color = light_gray});
    if (labels_steps) canvas.text({x(value), y.begin + 18}, tick_text(value), {.anchor = middle});
  }
  canvas.line({{x.begin, y.end}, {x.begin, y.begin}, {x.end, y.begin}}, {.color = 0});
}

// Draws the names of the lines and their colors, from right to left.
void draw_legend(const LineChart& chart, Canvas& canvas) {
  double right = chart_right;
  for (std::size_t i = chart.lines.size(); i-- > 0;) {
    if (chart.lines[i].values.empty()) continue;
    const std::string name = label_text(chart.lines[i].name, 40);
    canvas.line({{right - 30, 18}, {right, 18}}, {.color = line_colors[i], .width = 2});
    canvas.text({right - 38, 18 + to_baseline}, name, {.anchor = end});
    right -= 38 + width_of(name) + 20;
  }
}

// --- scatter plots ---

// Colors that differ in hue or lightness; further clouds repeat them as squares.
constexpr std::array<Color, 11> cloud_colors = {0x1f77b4, 0xff7f0e, 0x2ca02c, 0xd62728,
                                                0x9467bd, 0x8c564b, 0xe377c2, 0x7f7f7f,
                                                0xbcbd22, 0x17becf, 0x000000};
constexpr double scatter_width = 860, names_left = 680;

Marker marker_of(std::size_t cloud, double size) {
  return {.color = cloud_colors[cloud % cloud_colors.size()],
          .size = size,
          .is_square = cloud / cloud_colors.size() % 2 == 1};
}

// Returns the axes of all clouds with values in [-1, 1].
std::vector<Axis> unit_axes(const Scatter& scatter) {
  std::vector<Axis> axes(scatter.axes.size(), Axis{-1, 1});
  for (const Cloud& cloud : scatter.clouds) {
    const auto values = cloud.points.values<float>();
    for (std::size_t i = 0; i < values.size(); ++i) axes[i % axes.size()].include(values[i]);
  }
  for (Axis& axis : axes) axis.complete(0.04);
  return axes;
}

// A box that is seen from above its corner (-1, -1, -1).
class View {
 public:
  explicit View(double height) : middle_{names_left / 2, height / 2 + 10} {}

  Position operator()(const std::array<double, 3>& point) const {
    constexpr double turn = 40 * std::numbers::pi / 180, tilt = 28 * std::numbers::pi / 180;
    constexpr double scale = 145, wider = 1.2;
    const auto [x, y, z] = point;
    const double across = x * std::cos(turn) - y * std::sin(turn);
    const double away = x * std::sin(turn) + y * std::cos(turn);
    return {middle_.x + wider * scale * across,
            middle_.y - scale * (z * std::cos(tilt) + away * std::sin(tilt))};
  }

 private:
  Position middle_;
};

void draw_names(const Scatter& scatter, Canvas& canvas) {
  for (std::size_t i = 0; i < scatter.clouds.size(); ++i) {
    const double y = 60 + 18 * static_cast<double>(i);
    canvas.markers(std::array<Position, 1>{{{names_left + 8, y}}}, marker_of(i, 8));
    canvas.text({names_left + 20, y + to_baseline}, label_text(scatter.clouds[i].name, 20), {});
  }
}

// Draws the points; place(values) returns the position of the values of one.
void draw_clouds(const Scatter& scatter, const auto& place, Canvas& canvas) {
  for (std::size_t i = 0; i < scatter.clouds.size(); ++i) {
    const auto values = scatter.clouds[i].points.values<float>();
    const std::size_t dimensions = scatter.axes.size();
    std::vector<Position> points;
    for (std::size_t k = 0; k + dimensions <= values.size(); k += dimensions) {
      const auto point = values.subspan(k, dimensions);
      if (std::ranges::all_of(point, [](float value) { return std::isfinite(value); }))
        points.push_back(place(point));
    }
    canvas.markers(points, marker_of(i, 4));
  }
}

void draw_flat(const Scatter& scatter, Canvas& canvas) {
  const double bottom = extent_of(scatter).height - 60;
  std::vector<Axis> axes = unit_axes(scatter);
  Axis &x = axes[0], &y = axes[1];
  x.begin = 76, x.end = names_left - 20, y.begin = bottom, y.end = 44;
  for (const double value : round_ticks(x.low, x.high, 8)) {
    canvas.line({{x(value), bottom}, {x(value), bottom + 5}}, {.color = gray});
    canvas.text({x(value), bottom + 20}, tick_text(value), {.anchor = middle});
  }
  for (const double value : round_ticks(y.low, y.high, 8)) {
    canvas.line({{x.begin - 5, y(value)}, {x.begin, y(value)}}, {.color = gray});
    canvas.text({x.begin - 9, y(value) + to_baseline}, tick_text(value), {.anchor = end});
  }
  canvas.line(
      {{x.begin, y.begin}, {x.end, y.begin}, {x.end, y.end}, {x.begin, y.end}, {x.begin, y.begin}},
      {.color = gray});
  canvas.text({(x.begin + x.end) / 2, bottom + 44}, label_text(scatter.axes[0], 60),
              {.anchor = middle});
  canvas.text({18, (y.begin + y.end) / 2}, label_text(scatter.axes[1], 60),
              {.anchor = middle, .is_upright = true});
  draw_clouds(
      scatter,
      [&](auto point) {
        return Position{x(point[0]), y(point[1])};
      },
      canvas);
}

void draw_deep(const Scatter& scatter, Canvas& canvas) {
  const View view(extent_of(scatter).height);
  const std::vector<Axis> axes = unit_axes(scatter);
  canvas.line({view({-1, 1, 1}), view({-1, 1, -1}), view({-1, -1, -1}), view({1, -1, -1}),
               view({1, 1, -1}), view({-1, 1, -1})},
              {.color = gray});
  // Each axis runs along an edge of the box; its labels are outside of the box.
  struct Edge {
    std::array<double, 3> from, outward;
    TextStyle::Anchor anchor;
  };
  const std::array<Edge, 3> edges = {{{{0, -1, -1}, {0, -0.1, 0}, begin},
                                      {{-1, 0, -1}, {-0.1, 0, 0}, end},
                                      {{-1, 1, 0}, {-0.06, 0.03, 0}, end}}};
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto& [from, outward, anchor] = edges[k];
    const auto at = [&](double along, double out) {
      std::array<double, 3> point = from;
      point[k] = along;
      for (std::size_t i = 0; i < point.size(); ++i) point[i] += out * outward[i];
      return view(point);
    };
    for (const double value : round_ticks(axes[k].low, axes[k].high, 8)) {
      const double along = axes[k](value);
      canvas.line({at(along, 0), at(along, 0.4)}, {.color = gray});
      const auto [x, y] = at(along, 1);
      canvas.text({x, y + to_baseline}, tick_text(value), {.anchor = anchor, .size = 10});
    }
    const auto [x, y] = k < 2 ? at(0, 4) : at(1.1, 0);
    canvas.text({x, y + to_baseline}, label_text(scatter.axes[k], 40),
                {.anchor = k < 2 ? anchor : middle});
  }
  draw_clouds(
      scatter,
      [&](auto point) {
        return view({axes[0](point[0]), axes[1](point[1]), axes[2](point[2])});
      },
      canvas);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int most) {
  const double rough = (high - low) / most, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5., 2., 1.})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  for (int i = 0; i <= most && (first + i) * step <= high; ++i) {
    const double tick = (first + i) * step;
    ticks.push_back(std::abs(tick) < step / 2 ? 0 : tick);  // not -0
  }
  return ticks;
}

Extent extent_of(const LineCharts& figure) {
  return {chart_width,
          legend_height + static_cast<double>(figure.charts.size()) * chart_height + axis_height};
}

Extent extent_of(const Scatter& scatter) {
  return {scatter_width, std::max(560.0, 80 + 18 * static_cast<double>(scatter.clouds.size()))};
}

void draw(const LineCharts& figure, Canvas& canvas) {
  const Axis x = steps_of(figure.charts);
  double top = legend_height;
  for (const LineChart& chart : figure.charts) {
    require(chart.lines.size() <= line_colors.size(),
            "render: a line chart of {} lines; expected at most {}", chart.lines.size(),
            line_colors.size());
    const Axes axes{x, values_of(chart, top)};
    draw_axes(axes, &chart == &figure.charts.back(), canvas);
    for (std::size_t i = 0; i < chart.lines.size(); ++i)
      draw_line(chart.lines[i], axes, line_colors[i], canvas);
    canvas.text({14, (axes.y.begin + axes.y.end) / 2}, label_text(chart.title, 16),
                {.anchor = middle, .is_upright = true});
    top += chart_height;
  }
  if (!figure.charts.empty()) draw_legend(figure.charts.front(), canvas);
  canvas.text({(chart_left + chart_right) / 2, top + 26}, label_text(figure.steps, 100),
              {.anchor = middle});
}

void draw(const Scatter& scatter, Canvas& canvas) {
  const std::size_t dimensions = scatter.axes.size();
  require(dimensions == 2 || dimensions == 3, "render: a scatter plot of {} axes; expected 2 or 3",
          dimensions);
  canvas.text({names_left / 2, 26}, label_text(scatter.title, 90), {.anchor = middle, .size = 14});
  if (dimensions == 2)
    draw_flat(scatter, canvas);
  else
    draw_deep(scatter, canvas);
  draw_names(scatter, canvas);
}

}  // namespace tapestry
