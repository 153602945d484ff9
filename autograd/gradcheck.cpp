#include "autograd/gradcheck.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/branches.hpp"
#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

using Function = std::function<Tensor()>;  // a function of variables that are changed in place
using Values = std::span<const double>;

double dot(Values x, Values y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

Array random_direction(const Shape& shape, Random& random) {
  Array direction(shape, DType::float64);
  random.fill_normal(direction, 0, 1);
  return direction;
}

Array axis_direction(const Shape& shape, std::size_t index) {
  Array direction = Array::zeros(shape, DType::float64);
  direction.mutable_values<double>()[index] = 1;
  return direction;
}

// Returns Jᵀ u, computed by the tape.
Array analytic(const Function& f, const Tensor& x, const Array& u) {
  Tape tape;
  const Gradients gradients = tape.backward(f(), u);
  const Array* found = gradients.find(x);
  return found ? *found : Array::zeros(x.shape(), DType::float64);
}

// Returns J v by fourth-order central differences: (8 f(x + h v) - 8 f(x - h v) - f(x + 2h v) + f(x
// - 2h v)) / 12h.
std::vector<double> numeric(const Function& f, const Tensor& x, const Array& v, double h) {
  struct MovedBack {
    Array moved, kept = moved.clone();
    ~MovedBack() { moved.copy_from(kept); }
  } at{x.value()};
  std::vector<double> slope;
  const auto add_outputs = [&](double steps, double weight) {
    std::ranges::transform(at.kept.values<double>(), v.values<double>(),
                           at.moved.mutable_values<double>().begin(),
                           [&](double from, double along) { return from + steps * h * along; });
    const Array y = f().value();
    slope.resize(y.size());
    std::ranges::transform(slope, y.values<double>(), slope.begin(), [&](double sum, double value) {
      return sum + weight * value / (12 * h);
    });
  };
  add_outputs(1, 8);
  add_outputs(-1, -8);
  add_outputs(2, -1);
  add_outputs(-2, 1);
  return slope;
}

// What is checked: f, f with its branches fixed at the current point, and the value of f there.
struct Subject {
  Function f, held = {};
  Array output = {};
};

// Returns the smallest scale that errors of a value's gradient are compared with; differences of
// smaller gradients are mostly rounding errors. The value is rounded to about 1e-16 of its
// magnitude, so that its differences over steps of 1e-4 have errors of 1e-12 of it, or 1e-11 if it
// is a sum of many terms.
double smallest_scale(double value) {
  return std::isfinite(value) ? std::max(0.01, 1e-5 * std::abs(value)) : 0.01;
}

double relative_error(double by_tape, double by_difference, double scale) {
  const double error = std::abs(by_tape - by_difference) / scale;
  return std::isnan(error) ? HUGE_VAL : error;
}

// Returns the smallest error of several steps, or the first within the tolerance: long steps suffer
// from curvature, short ones from rounding, and a wrong gradient has errors at all steps.
double least_error(const GradcheckOptions& options, const std::function<double(double)>& error_at) {
  double least = HUGE_VAL;
  for (double step = options.step; step > options.step / 500 && !(least <= options.tolerance);
       step /= 10)
    least = std::min(least, error_at(step));
  return least;
}

// Returns the largest error of uᵀ J v for random u and v, relative to the length of Jᵀ u.
double projection_error(const Subject& subject, const Tensor& x, const GradcheckOptions& options) {
  double worst = 0;
  const Values outputs = subject.output.values<double>();
  Random random(options.seed, Stream::eval);
  for (int i = 0; i < options.directions; ++i) {
    const Array u = random_direction(subject.output.shape(), random);
    const Array v = random_direction(x.shape(), random);
    const Array gradient = analytic(subject.f, x, u);
    const Values g = gradient.values<double>();
    double scale = std::max(smallest_scale(0), std::sqrt(dot(g, g)));
    for (const double value : outputs) scale = std::max(scale, smallest_scale(value));
    worst = std::max(worst, least_error(options, [&](double step) {
                       const auto difference = numeric(subject.held, x, v, step);
                       return relative_error(dot(g, v.values<double>()),
                                             dot(u.values<double>(), difference), scale);
                     }));
  }
  return worst;
}

// Returns the largest error of an element of J, whose rows come from the tape and columns from
// differences.
double jacobian_error(const Subject& subject, const Tensor& x, const GradcheckOptions& options) {
  std::vector<Array> rows;
  const Values outputs = subject.output.values<double>();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    rows.push_back(analytic(subject.f, x, axis_direction(subject.output.shape(), i)));
  double worst = 0;
  for (std::int64_t j = 0; j < x.size(); ++j)
    worst = std::max(worst, least_error(options, [&](double step) {
                       const std::vector<double> column =
                           numeric(subject.held, x, axis_direction(x.shape(), j), step);
                       double error = 0;
                       for (std::size_t i = 0; i < rows.size(); ++i) {
                         const double element = rows[i].values<double>()[j];
                         const double scale =
                             std::max(smallest_scale(outputs[i]), std::abs(element));
                         error = std::max(error, relative_error(element, column[i], scale));
                       }
                       return error;
                     }));
  return worst;
}

void require_float64(const std::vector<Parameter*>& parameters) {
  for (const Parameter* parameter : parameters)
    require(parameter->role == Role::fixed || parameter->tensor.dtype() == DType::float64,
            "gradcheck: parameter {} is {}; expected float64", parameter->name, parameter->value());
}

}  // namespace

std::vector<GradcheckResult> gradcheck_parameters(const std::function<Tensor()>& loss,
                                                  const std::vector<Parameter*>& parameters,
                                                  const GradcheckOptions& options) {
  require_float64(parameters);
  Subject subject{.f = loss};
  Branches branches([&] {
    const Tensor y = loss();
    subject.output = y.value().clone();
    return y;
  });
  subject.held = [&] { return branches.hold(loss); };
  std::vector<GradcheckResult> results;
  for (const Parameter* parameter : distinct_parameters(parameters)) {
    if (parameter->role == Role::fixed) continue;
    const Tensor& x = parameter->tensor;
    const std::int64_t held_before = branches.held();
    double error = projection_error(subject, x, options);
    if (x.size() * subject.output.size() <= options.jacobian_limit)
      error = std::max(error, jacobian_error(subject, x, options));
    results.push_back(
        {parameter->name, error, error <= options.tolerance, branches.held() - held_before});
  }
  return results;
}

namespace {

// Parameters that are moved together, each in a random direction.
class Movement {
 public:
  Movement(std::vector<Parameter*> parameters, std::uint64_t seed)
      : parameters_(std::move(parameters)) {
    Random random(seed, Stream::eval);
    for (const Parameter* parameter : parameters_) {
      kept_.push_back(parameter->value().clone());
      random.fill_normal(directions_.emplace_back(kept_.back().shape()), 0, 1);
    }
  }
  ~Movement() { to(0, 0); }
  Movement(const Movement&) = delete;
  Movement& operator=(const Movement&) = delete;

  std::size_t size() const { return parameters_.size(); }
  const std::string& name(std::size_t i) const { return parameters_[i]->name; }

  // Moves the parameters from index `first` on by `distance`, and the others back.
  void to(std::size_t first, double distance) {
    for (std::size_t i = std::min(first, first_); i < size(); ++i)
      move(i, i < first ? 0 : distance);
    first_ = first;
  }

  // Returns gradient · direction of the parameters from index `first` on, and the gradient's
  // length.
  std::pair<double, double> slope(const Gradients& gradients, std::size_t first) const {
    double along = 0, squares = 0;
    for (std::size_t i = first; i < size(); ++i)
      if (const Array* gradient = gradients.find(*parameters_[i])) {
        const Values g = gradient->values<double>();
        const auto v = directions_[i].values<float>();
        along += std::inner_product(g.begin(), g.end(), v.begin(), 0.0);
        squares += dot(g, g);
      }
    return {along, std::sqrt(squares)};
  }

 private:
  void move(std::size_t i, double distance) {
    Array value = parameters_[i]->value();
    const auto to = value.mutable_values<double>();
    const Values from = kept_[i].values<double>();
    const auto along = directions_[i].values<float>();
    parallel_for(std::ssize(to), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) to[k] = from[k] + distance * along[k];
    });
  }

  std::vector<Parameter*> parameters_;
  std::vector<Array> kept_, directions_;  // directions_ in float32, to save memory
  std::size_t first_ = 0;                 // index of the first moved parameter
};

}  // namespace

GradcheckResult gradcheck_together(const std::function<Tensor()>& loss,
                                   const std::vector<Parameter*>& parameters,
                                   const GradcheckOptions& options) {
  require_float64(parameters);
  std::vector<Parameter*> free = distinct_parameters(parameters);
  std::erase_if(free, [](const Parameter* parameter) { return parameter->role == Role::fixed; });
  double smallest = 0;
  const Gradients gradients = [&] {
    Tape tape;
    const Tensor y = loss();
    Gradients computed = tape.backward(y);
    smallest = smallest_scale(y.item());
    return computed;
  }();
  Branches branches(loss);
  Movement movement(free, options.seed);
  const auto error_from = [&](std::size_t first) {
    const auto [along, length] = movement.slope(gradients, first);
    const auto at = [&](double distance) {
      movement.to(first, distance);
      return branches.hold(loss).item();
    };
    return least_error(options, [&](double h) {
      const double difference = (8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h);
      return relative_error(along, difference, std::max(smallest, length));
    });
  };
  const double error = error_from(0);
  if (error <= options.tolerance) return {"", error, true, branches.held()};
  std::size_t wrong = 0, right = movement.size();  // first parameters with and without error
  while (right - wrong > 1) {
    const std::size_t middle = (wrong + right) / 2;
    (error_from(middle) <= options.tolerance ? right : wrong) = middle;
  }
  return {movement.name(wrong), error, false, branches.held()};
}

}  // namespace tapestry
