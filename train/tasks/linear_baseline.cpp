#include "train/tasks/linear_baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/graphs.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/tape.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

using Vector = std::vector<double>;

double product_of(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add_scaled(Vector& to, double factor, const Vector& vector) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * vector[i];
}

double largest_size(const Vector& vector) {
  double most = 0;
  for (const double value : vector) most = std::max(most, std::abs(value));
  return most;
}

// A point with the value and the gradient of a function.
struct Point {
  Vector at{}, gradient{};
  double value = 0;
};
using Function = std::function<void(Point& point)>;  // sets value and gradient

// The last steps and changes of the gradient, from which L-BFGS estimates the curvature.
class Curvature {
 public:
  void add(const Point& from, const Point& to) {
    constexpr std::size_t most = 8;
    Change change{to.at, to.gradient};
    add_scaled(change.step, -1, from.at);
    add_scaled(change.gradient, -1, from.gradient);
    change.product = product_of(change.step, change.gradient);
    if (!(change.product > 0)) return;
    changes_.push_back(std::move(change));
    if (changes_.size() > most) changes_.pop_front();
  }
  bool empty() const { return changes_.empty(); }
  void clear() { changes_.clear(); }

  // Returns the estimated inverse Hessian times the negative gradient (algorithm 7.4).
  Vector direction(const Vector& gradient) const {
    Vector q = gradient, factors(changes_.size());
    for (std::size_t i = changes_.size(); i-- > 0;) {
      factors[i] = product_of(changes_[i].step, q) / changes_[i].product;
      add_scaled(q, -factors[i], changes_[i].gradient);
    }
    double scale = -1;
    if (!empty())
      scale *=
          changes_.back().product / product_of(changes_.back().gradient, changes_.back().gradient);
    for (double& value : q) value *= scale;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const double factor = product_of(changes_[i].gradient, q) / changes_[i].product;
      add_scaled(q, -factors[i] - factor, changes_[i].step);
    }
    return q;
  }

 private:
  struct Change {
    Vector step, gradient;
    double product = 0;
  };
  std::deque<Change> changes_{};
};

// Returns the lowest point that is found from `point` on with so many calls of the function.
Point minimized(Point point, const Function& function, std::int64_t calls) {
  constexpr double flat = 1e-4, enough = 1e-4;  // largest gradient; share of the expected decrease
  Curvature curvature;
  function(point);
  for (--calls; calls > 0 && largest_size(point.gradient) > flat;) {
    const Vector direction = curvature.direction(point.gradient);
    const double slope = product_of(direction, point.gradient);
    double step = curvature.empty() ? std::min(1.0, 1 / std::sqrt(-slope)) : 1;
    Point next;
    bool is_lower = false;
    for (; calls > 0 && !is_lower && step > 1e-10; step /= 2, --calls) {
      next.at = point.at;
      add_scaled(next.at, step, direction);
      function(next);
      is_lower = next.value <= point.value + enough * step * slope;
    }
    if (!is_lower && curvature.empty()) break;  // as low as the precision allows
    if (!is_lower) {
      curvature.clear();
      continue;
    }
    curvature.add(point, next);
    point = std::move(next);
  }
  return point;
}

const Adjacency* entries_of(const Batch& batch) {
  const auto* part = batch.find<GraphPart>();
  return part && part->features ? &*part->features : nullptr;
}

Tensor linear_outputs(const Batch& batch, const Tensor& weight, const Tensor& bias) {
  const Adjacency* entries = entries_of(batch);
  const Tensor product =
      entries ? neighbor_sum(*entries, weight, batch.inputs) : matmul(batch.inputs, weight);
  return product + bias;
}

// Returns the loss, summed over the examples.
Tensor loss_of(const Tensor& outputs, const Array& targets) {
  if (targets.dtype() == DType::int32)
    return cross_entropy(outputs, targets, {.ignore_index = ignored_target, .mean = false});
  return 0.5 * sum(squared_error(outputs, targets.to(outputs.dtype())));
}

Array rounded(std::span<const double> values, const Shape& shape, DType dtype) {
  return Array::of(Vector(values.begin(), values.end()), shape).to(dtype);
}

// Copies the gradient to `into`; zeros if the loss does not depend on the variable.
void copy_gradient(const Gradients& gradients, const Tensor& variable, std::span<double> into) {
  const Array* found = gradients.find(variable);
  if (!found) return;
  const Array wide = found->to(DType::float64);
  std::ranges::copy(wide.values<double>(), into.begin());
}

// Returns the outputs without inputs (1, outputs): logits of the frequencies, or means.
Array constant_outputs(const Array& targets, std::int64_t outputs) {
  Array constant = Array::zeros({1, outputs}, DType::float64);
  const auto values = constant.mutable_values<double>();
  if (targets.dtype() == DType::int32) {
    for (const std::int32_t target : targets.values<std::int32_t>())
      if (target != ignored_target) ++values[target];
    constexpr double unseen = 0.5;  // of a class, so that its loss is finite
    for (double& value : values) value = std::log(std::max(value, unseen));
    return constant;
  }
  const Array wide = targets.to(DType::float64);
  for (std::int64_t i = 0; i < wide.size(); ++i)
    values[i % outputs] += wide.values<double>()[i] / static_cast<double>(targets.dim(0));
  return constant;
}

std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> examples(std::min(count, most));
  for (std::int64_t i = 0; i < std::ssize(examples); ++i)
    examples[i] = i * count / std::ssize(examples);
  return examples;
}

}  // namespace

LinearModel::LinearModel(const Batch& examples, std::int64_t outputs) {
  const Adjacency* entries = entries_of(examples);
  const DType dtype = examples.inputs.dtype();
  const std::int64_t F = entries ? entries->sources() : examples.inputs.dim(1);
  const auto weights = static_cast<std::size_t>(F * outputs);
  const double N = std::max(1.0, examples.count);
  const auto parts = [&](const Vector& at) {
    const std::span<const double> all(at);
    return std::pair(Tensor::variable(rounded(all.first(weights), {F, outputs}, dtype)),
                     Tensor::variable(rounded(all.subspan(weights), {outputs}, dtype)));
  };
  const Function function = [&](Point& point) {
    const auto [weight, bias] = parts(point.at);
    Tape tape;
    const Tensor loss = loss_of(linear_outputs(examples, weight, bias), examples.targets);
    const Gradients gradients = tape.backward(loss, 1 / N);
    point.gradient.assign(point.at.size(), 0);
    const std::span<double> all(point.gradient);
    copy_gradient(gradients, weight, all.first(weights));
    copy_gradient(gradients, bias, all.subspan(weights));
    point.value = loss.item() / N;
    for (std::size_t i = 0; i < weights; ++i) {
      point.value += point.at[i] * point.at[i] / (2 * N);
      point.gradient[i] += point.at[i] / N;
    }
  };
  constexpr double steps_back = 40;  // products of L-BFGS with each of the weights
  const double products = static_cast<double>(examples.inputs.size() * outputs) * 2 +
                          static_cast<double>(weights) * steps_back;
  constexpr double most_calls = 100;
  const auto calls =
      static_cast<std::int64_t>(std::clamp(most_products / products, 4., most_calls));
  const Point best = minimized({.at = Vector(weights + outputs)}, function, calls);
  const auto [weight, bias] = parts(best.at);
  weight_ = weight.value();
  bias_ = bias.value();
  objective_ = best.value;
}

Array LinearModel::outputs(const Batch& inputs) const {
  return linear_outputs(inputs, weight_, bias_).value();
}

bool has_own_training_data(const TaskSetup& setup) {
  return !setup.config[key::data_path].empty() && !setup.whole_data;
}

std::vector<Baselines> linear_baselines(Task& task, JudgedSplits judged,
                                        const LinearBaselineOptions& options) {
  constexpr double most_values = 5e7, fewest_calls = 10;
  constexpr std::int64_t at_once = 4096;
  const double values = std::max(1.0, options.values_each),
               products = values * static_cast<double>(options.outputs) * 2;
  const auto most = static_cast<std::int64_t>(
      std::min(most_values / values, LinearModel::most_products / (fewest_calls * products)));
  const Dataset& training = task.training_data();
  const std::vector<std::int64_t> examples = evenly_spaced(
      training.size(), options.is_whole ? training.size() : std::max<std::int64_t>(1, most));
  const Batch fitted = options.encode(training, examples, true);
  const LinearModel model(fitted, options.outputs);
  const Array constant = constant_outputs(fitted.targets, options.outputs);
  const bool has_classes = fitted.targets.dtype() == DType::int32;
  std::string name = options.name;
  if (std::ssize(examples) < training.size())
    name += fmt::format(" (of {} training examples)", examples.size());
  std::vector<Baselines> all;
  for (const Dataset* split : judged) {
    MetricSums of_constant, of_model;
    const auto add = [&](MetricSums& sums, const Array& outputs, const Batch& batch) {
      for (const auto& [metric, sum] : options.measure(outputs, batch).averages)
        sums[metric] += sum;
    };
    const std::int64_t size = split->size(), step = options.is_whole ? size : at_once;
    for (std::int64_t first = 0; first < size; first += step) {
      const Batch batch =
          options.encode(*split, indices(first, std::min(first + step, size)), false);
      const Array outputs = model.outputs(batch);
      add(of_model, outputs, batch);
      add(of_constant,
          (Tensor(Array::zeros(outputs.shape(), DType::float64)) + Tensor(constant)).value(),
          batch);
    }
    all.push_back({{has_classes ? "majority class" : "training mean", values_of(of_constant)},
                   {name, values_of(of_model)}});
    for (Baseline& baseline : all.back()) task.add_derived_metrics(baseline.metrics);
  }
  return all;
}

Batch batch_of_rows(const std::vector<SparseRow>& rows, std::int64_t columns, Array targets) {
  std::vector<Edge> edges;
  Vector values;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (const auto& [column, value] : rows[row]) {
      edges.push_back({column, static_cast<std::int32_t>(row)});
      values.push_back(value);
    }
  const std::int64_t entries = std::ssize(values), N = std::ssize(rows);
  return {.inputs = Array::of(values, {entries, 1}),
          .targets = std::move(targets),
          .count = static_cast<double>(N),
          .auxiliary = GraphPart{.features = Adjacency(columns, N, std::move(edges))}};
}

}  // namespace tapestry
