#include "autograd/gradcheck.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/branches.hpp"
#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

using Function = std::function<Tensor()>;  // of variables whose values change in place
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

// Jᵀ u, by the tape.
Array analytic(const Function& f, const Tensor& x, const Array& u) {
  Tape tape;
  const Gradients gradients = tape.backward(f(), u);
  const Array* found = gradients.find(x);
  return found ? *found : Array::zeros(x.shape(), DType::float64);
}

// J v, by central differences of fourth order:
// (8 f(x + h v) - 8 f(x - h v) - f(x + 2h v) + f(x - 2h v)) / 12h.
std::vector<double> numeric(const Function& f, const Tensor& x, const Array& v, double h) {
  struct Restore {
    Array moved, kept = moved.clone();
    ~Restore() { moved.copy_from(kept); }
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

double relative_error(double by_tape, double by_difference, double size) {
  constexpr double smallest = 0.01;  // of anything smaller, the differences see mostly rounding
  const double error = std::abs(by_tape - by_difference) / std::max(smallest, size);
  return std::isnan(error) ? HUGE_VAL : error;
}

// The error at the step that suits f best: a long step suffers from curvature, a short one from
// rounding, and a wrong gradient agrees at none.
double least_error(const GradcheckOptions& options, const std::function<double(double)>& error_at) {
  double least = HUGE_VAL;
  for (double step = options.step; step > options.step / 500 && !(least <= options.tolerance);
       step /= 10)
    least = std::min(least, error_at(step));
  return least;
}

// The error of uᵀ J v for random u and v, relative to the length of Jᵀ u. `held` is f, held to its
// branches at x.
double projection_error(const Function& f, const Function& held, const Tensor& x,
                        const Shape& output, const GradcheckOptions& options) {
  double worst = 0;
  Random random(options.seed, Stream::eval);
  for (int i = 0; i < options.directions; ++i) {
    const Array u = random_direction(output, random), v = random_direction(x.shape(), random);
    const Array gradient = analytic(f, x, u);
    const Values g = gradient.values<double>();
    worst = std::max(worst, least_error(options, [&](double step) {
                       return relative_error(dot(g, v.values<double>()),
                                             dot(u.values<double>(), numeric(held, x, v, step)),
                                             std::sqrt(dot(g, g)));
                     }));
  }
  return worst;
}

// The largest error of an element of J, whose rows come from the tape and columns from differences.
double jacobian_error(const Function& f, const Function& held, const Tensor& x, const Shape& output,
                      const GradcheckOptions& options) {
  std::vector<Array> rows;
  for (std::int64_t i = 0; i < output.elements(); ++i)
    rows.push_back(analytic(f, x, axis_direction(output, i)));
  double worst = 0;
  for (std::int64_t j = 0; j < x.size(); ++j)
    worst = std::max(
        worst, least_error(options, [&](double step) {
          const std::vector<double> column = numeric(held, x, axis_direction(x.shape(), j), step);
          double error = 0;
          for (std::size_t i = 0; i < rows.size(); ++i) {
            const double element = rows[i].values<double>()[j];
            error = std::max(error, relative_error(element, column[i], std::abs(element)));
          }
          return error;
        }));
  return worst;
}

}  // namespace

std::vector<GradcheckResult> gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                       const std::vector<Array>& inputs,
                                       const GradcheckOptions& options) {
  std::vector<Tensor> variables;
  std::vector<Parameter> parameters;
  for (const Array& input : inputs) {
    parameters.emplace_back(input.clone().to(DType::float64), Role::weight);
    parameters.back().name = fmt::format("input {}", variables.size());
    variables.push_back(parameters.back());
  }
  std::vector<Parameter*> pointers;
  for (Parameter& parameter : parameters) pointers.push_back(&parameter);
  return gradcheck_parameters([&] { return f(variables); }, pointers, options);
}

std::vector<GradcheckResult> gradcheck_parameters(const std::function<Tensor()>& loss,
                                                  const std::vector<Parameter*>& parameters,
                                                  const GradcheckOptions& options) {
  for (const Parameter* parameter : parameters)
    require(parameter->role == Role::fixed || parameter->tensor.dtype() == DType::float64,
            "gradcheck: {} {} is {}, not float64", parameter->name,
            to_string(parameter->tensor.shape()), to_string(parameter->tensor.dtype()));
  Shape output;
  Branches branches([&] {
    const Tensor y = loss();
    output = y.shape();
    return y;
  });
  const auto held_loss = [&] { return branches.hold(loss); };
  std::vector<GradcheckResult> results;
  for (const Parameter* parameter : parameters) {
    if (parameter->role == Role::fixed) continue;
    const Tensor& x = parameter->tensor;
    const std::int64_t held_before = branches.held();
    double error = projection_error(loss, held_loss, x, output, options);
    if (x.size() * output.elements() <= options.jacobian_limit)
      error = std::max(error, jacobian_error(loss, held_loss, x, output, options));
    results.push_back(
        {parameter->name, error, error <= options.tolerance, branches.held() - held_before});
  }
  return results;
}

}  // namespace tapestry
