#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "autograd/parallel.hpp"
#include "train/plot/figure.hpp"

namespace tapestry {
namespace {

using Point = std::complex<double>;  // x + iy

// Returns points on a spiral, evenly spread over a disc of radius ½.
std::vector<Point> begin_of(std::int64_t nodes) {
  std::vector<Point> places;
  for (std::int64_t i = 0; i < nodes; ++i)
    places.push_back(std::polar(0.5 * std::sqrt((i + 0.5) / static_cast<double>(nodes)),
                                static_cast<double>(i) * std::numbers::pi * (3 - std::sqrt(5.0))));
  return places;
}

// Returns the force on each node; joined nodes are at the distance `ideal`.
std::vector<Point> forces_on(const std::vector<Point>& places, std::span<const Edge> edges,
                             double ideal) {
  std::vector<Point> forces(places.size());
  parallel_for(std::ssize(places), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::size_t j = 0; j < places.size(); ++j) {
        const Point way = places[i] - places[j];  // 0 for the node itself
        const double squared = std::norm(way);
        if (squared > 4 * ideal * ideal) continue;
        forces[i] += way * (ideal * ideal / std::max(squared, 1e-9));
      }
      forces[i] -= 0.3 * ideal * places[i];  // attracts nodes without edges to the center
    }
  });
  for (const auto& [from, to] : edges) {
    const Point way = places[to] - places[from], pull = way * (std::abs(way) / ideal);
    forces[from] += pull;
    forces[to] -= pull;
  }
  return forces;
}

Array in_unit_square(const std::vector<Point>& places) {
  const auto x = [](const Point& place) { return place.real(); };
  const auto y = [](const Point& place) { return place.imag(); };
  const auto [left, right] = std::ranges::minmax(places, {}, x);
  const auto [low, high] = std::ranges::minmax(places, {}, y);
  const double extent = std::max({x(right) - x(left), y(high) - y(low), 1e-9});
  std::vector<float> values;
  for (const Point& place : places) {
    values.push_back(static_cast<float>(0.5 + (x(place) - (x(left) + x(right)) / 2) / extent));
    values.push_back(static_cast<float>(0.5 + (y(place) - (y(low) + y(high)) / 2) / extent));
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
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] += forces[i] * std::min(1.0, farthest / std::max(std::abs(forces[i]), 1e-12));
  }
  return in_unit_square(places);
}

}  // namespace tapestry
