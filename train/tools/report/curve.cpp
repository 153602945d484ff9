#include "train/tools/report/curve.hpp"

#include <algorithm>
#include <numeric>

#include "train/task_spec.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_points = 1000, most_curves = 300;

// Replaces each pair of neighboring points by its mean.
void halve(std::vector<CurvePoint>& points) {
  const auto middle = [](double a, double b) { return a / 2 + b / 2; };
  std::size_t kept = 0;
  for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
    const CurvePoint &one = points[i], &other = points[i + 1];
    points[kept++] = {middle(one.x, other.x), middle(one.low, other.low), middle(one.y, other.y),
                      middle(one.high, other.high)};
  }
  if (points.size() % 2 == 1) points[kept++] = points.back();
  points.resize(kept);
}

CurvePoint measured(double step, double value) { return {step, value, value, value}; }

CurvePoint band(double step, const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  const double mean =
      std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
  return {step, low, mean, high};
}

// Returns one point for evaluations of the test split, one per run, at different steps.
std::vector<CurvePoint> joined_tests(const std::vector<Curve*>& seeds) {
  std::vector<double> steps, values;
  for (const Curve* seed : seeds) {
    steps.push_back(seed->points.back().x);
    values.push_back(seed->points.back().y);
  }
  return {
      band(std::reduce(steps.begin(), steps.end()) / static_cast<double>(steps.size()), values)};
}

std::vector<CurvePoint> joined_points(const std::vector<Curve*>& seeds) {
  std::map<double, std::vector<double>> by_step;
  for (const Curve* seed : seeds)
    for (const CurvePoint& point : seed->points) by_step[point.x].push_back(point.y);
  std::vector<CurvePoint> points;
  for (const auto& [step, values] : by_step) {
    const auto got_so_far = std::ranges::count_if(
        seeds, [step = step](const Curve* seed) { return seed->points.back().x >= step; });
    if (std::ssize(values) == got_so_far) points.push_back(band(step, values));
  }
  return points;
}

// Makes each point of all seeds the mean of equally many rows.
void align(const std::vector<Curve*>& seeds) {
  std::int64_t coarsest = 1;
  for (const Curve* seed : seeds) coarsest = std::max(coarsest, seed->rows_a_point);
  for (Curve* seed : seeds)
    for (; seed->rows_a_point < coarsest; seed->rows_a_point *= 2) halve(seed->points);
}

}  // namespace

void CurveReader::read(const MetricsLine& line) {
  for (const auto& [name, value] : line.values)
    add({name, line.split}, static_cast<double>(line.step), value);
}

void CurveReader::add(const Name& name, double step, double value) {
  if (curves_.size() >= most_curves && !curves_.contains(name)) {
    left_some_out_ = true;
    return;
  }
  Rows& rows = curves_[name];
  rows.last = measured(step, value);
  rows.steps += step;
  rows.values += value;
  if (++rows.rows < rows.rows_a_point) return;
  const auto count = static_cast<double>(rows.rows);
  rows.points.push_back(measured(rows.steps / count, rows.values / count));
  rows.steps = rows.values = 0;
  rows.rows = 0;
  if (rows.points.size() < 2 * most_points) return;
  halve(rows.points);
  rows.rows_a_point *= 2;
}

std::vector<Curve> CurveReader::take() {
  std::vector<Curve> curves;
  for (auto& [name, rows] : curves_) {
    if (rows.points.empty() || rows.points.back().x < rows.last.x) rows.points.push_back(rows.last);
    curves.push_back({.metric = name.first,
                      .split = name.second,
                      .rows_a_point = rows.rows_a_point,
                      .points = std::move(rows.points)});
  }
  return curves;
}

std::vector<Curve> joined(std::vector<std::vector<Curve>> seeds) {
  std::map<std::pair<std::string, std::string>, std::vector<Curve*>> alike;
  for (std::vector<Curve>& curves : seeds)
    for (Curve& curve : curves) alike[{curve.metric, curve.split}].push_back(&curve);
  std::vector<Curve> bands;
  for (const auto& [name, some] : alike) {
    align(some);
    bands.push_back({.metric = name.first,
                     .split = name.second,
                     .seeds = std::ssize(some),
                     .rows_a_point = some.front()->rows_a_point,
                     .points = name.second == "test" ? joined_tests(some) : joined_points(some)});
  }
  return bands;
}

void thin_out(Curve& curve, std::size_t most) {
  if (curve.points.size() <= most) return;
  const CurvePoint last = curve.points.back();
  while (curve.points.size() >= std::max<std::size_t>(2, most)) {
    halve(curve.points);
    curve.rows_a_point *= 2;
  }
  curve.points.push_back(last);
}

void sort_by_interest(std::vector<Curve>& curves) {
  const auto is_common = [](const std::string& metric) {
    return metric == "lr" || metric == "grad_norm" || !unit_of_throughput(metric).empty();
  };
  std::ranges::stable_sort(curves, {}, [&](const Curve& curve) {
    return std::tuple(curve.metric != "loss", is_common(curve.metric), curve.metric);
  });
}

}  // namespace tapestry
