#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "train/plot/figure.hpp"

namespace tapestry {
namespace {

struct Point {
  double x = 0, y = 0;
};

// Returns points on a spiral, evenly spread over a disc of radius ½.
std::vector<Point> begin_of(std::int64_t nodes) {
  std::vector<Point> places;
  for (std::int64_t i = 0; i < nodes; ++i) {
    const double radius = 0.5 * std::sqrt((i + 0.5) / static_cast<double>(nodes));
    const double angle = static_cast<double>(i) * std::numbers::pi * (3 - std::sqrt(5.0));
    places.push_back({radius * std::cos(angle), radius * std::sin(angle)});
  }
  return places;
}

void add(Point& to, double dx, double dy, double times) {
  to.x += dx * times;
  to.y += dy * times;
}

// Returns the force on each node; joined nodes are at the distance `ideal`.
std::vector<Point> forces_on(const std::vector<Point>& places, std::span<const Edge> edges,
                             double ideal) {
  std::vector<Point> forces(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double dx = places[i].x - places[j].x, dy = places[i].y - places[j].y;
      const double squared = dx * dx + dy * dy;
      if (squared > 4 * ideal * ideal) continue;
      const double push = ideal * ideal / std::max(squared, 1e-9);
      add(forces[i], dx, dy, push);
      add(forces[j], dx, dy, -push);
    }
    add(forces[i], places[i].x, places[i].y, -0.3 * ideal);  // keeps nodes without edges
  }
  for (const auto& [from, to] : edges) {
    const double dx = places[to].x - places[from].x, dy = places[to].y - places[from].y;
    const double pull = std::sqrt(dx * dx + dy * dy) / ideal;
    add(forces[from], dx, dy, pull);
    add(forces[to], dx, dy, -pull);
  }
  return forces;
}

Array in_unit_square(const std::vector<Point>& places) {
  const auto [left, right] = std::ranges::minmax(places, {}, &Point::x);
  const auto [low, high] = std::ranges::minmax(places, {}, &Point::y);
  const double extent = std::max({right.x - left.x, high.y - low.y, 1e-9});
  std::vector<float> values;
  for (const Point& place : places) {
    values.push_back(static_cast<float>(0.5 + (place.x - (left.x + right.x) / 2) / extent));
    values.push_back(static_cast<float>(0.5 + (place.y - (low.y + high.y) / 2) / extent));
  }
  return Array::of(values, {std::ssize(places), 2});
}

}  // namespace

Array lay_out(std::int64_t nodes, std::span<const Edge> edges) {
  constexpr int rounds = 200;
  if (nodes == 0) return Array({0, 2});
  std::vector<Point> places = begin_of(nodes);
  const double ideal = 0.8 / std::sqrt(static_cast<double>(nodes));
  for (int round = 0; round < rounds; ++round) {
    const double farthest = 0.1 * (1 - round / static_cast<double>(rounds));  // the temperature
    const std::vector<Point> forces = forces_on(places, edges, ideal);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const double size = std::hypot(forces[i].x, forces[i].y);
      add(places[i], forces[i].x, forces[i].y, std::min(size, farthest) / std::max(size, 1e-12));
    }
  }
  return in_unit_square(places);
}

}  // namespace tapestry
