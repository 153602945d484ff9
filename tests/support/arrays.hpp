#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/gradcheck.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"
#include "tests/support/aliases.hpp"

// Makes and compares arrays.
namespace tapestry {

using In = const std::vector<Tensor>&;
using Function = std::function<Tensor(In)>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr DType f32 = DType::float32, f64 = DType::float64, i32 = DType::int32;

// Returns N(0, 1) numbers that depend on the step alone, equal in both types.
inline Array normal(const Shape& shape, std::uint64_t step, DType dtype = f64) {
  Array array(shape, f32);
  Random(0, Stream::data, step).fill_normal(array, 0, 1);
  return array.to(dtype);
}

// Returns other numbers at each call; static, so that they do not depend on other files.
static inline Array normal(const Shape& shape, DType dtype = f64) {
  static std::uint64_t step = 0;
  return normal(shape, ++step, dtype);
}

// Returns integers in [-limit, limit] that depend on the step.
inline Array integers(const Shape& shape, std::uint64_t step, std::int64_t limit = 3) {
  Array array(shape, f64);
  Random random(4, Stream::data, step);
  for (double& x : array.mutable_values<double>())
    x = static_cast<double>(random.below(2 * limit + 1) - limit);
  return array;
}

inline Array pixels(const Shape& shape, DType dtype = f64) {
  Array array(shape, f32);
  Random(1, Stream::data).fill_uniform(array, 0.05, 0.95);
  return array.to(dtype);
}

// Returns the message of the std::invalid_argument that `call` throws.
template <class Call>
std::string misuse_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no std::invalid_argument";
}

// Returns where each token's document starts, for rows of documents of these lengths.
inline Array starts_of(const std::vector<std::vector<std::int64_t>>& lengths_of_rows) {
  std::vector<std::int32_t> starts;
  for (const std::vector<std::int64_t>& lengths : lengths_of_rows) {
    std::int64_t start = 0;
    for (const std::int64_t length : lengths) {
      starts.insert(starts.end(), length, static_cast<std::int32_t>(start));
      start += length;
    }
  }
  const std::int64_t B = std::ssize(lengths_of_rows);
  return Array::of(starts, {B, std::ssize(starts) / B});
}

inline Array ints(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Array::of(values, shape);
}

inline Array row(const std::vector<double>& values, DType dtype = f64) {
  return Array::of(values, {std::ssize(values)}).to(dtype);
}

inline Array random_tokens(const Shape& shape, std::int64_t vocabulary, std::uint64_t seed = 2) {
  Array tokens(shape, DType::int32);
  Random random(seed, Stream::data);
  for (std::int32_t& token : tokens.mutable_values<std::int32_t>())
    token = static_cast<std::int32_t>(random.below(vocabulary));
  return tokens;
}

inline std::vector<double> doubles(const Array& array) {
  const Array wide = array.to(f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

inline std::vector<std::int32_t> ints_of(const Array& array) {
  const auto values = array.values<std::int32_t>();
  return {values.begin(), values.end()};
}

inline bool same_bits(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

// Returns the largest |a - b| / max(1, |b|); infinity for NaN or different shapes.
inline double distance(const Array& a, const Array& b) {
  if (a.shape() != b.shape()) return infinity;
  const std::vector<double> x = doubles(a), y = doubles(b);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = x[i] == y[i] ? 0 : std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    worst = std::max(worst, std::isnan(error) ? infinity : error);
  }
  return worst;
}

inline void check_close(const Array& found, const Array& wanted, double tolerance = 1e-12) {
  REQUIRE(found.shape() == wanted.shape());
  const std::vector<double> x = doubles(found), y = doubles(wanted);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK_MESSAGE(std::abs(x[i] - y[i]) <= tolerance, "element ", i, ": ", x[i], " for ", y[i]);
}

// Returns the index in an array of shape `own`, broadcast to `shape`, of element i.
inline std::int64_t stretched_place(const Shape& own, const Shape& shape, std::int64_t i) {
  std::int64_t place = 0, stride = 1;
  for (int axis = -1; axis >= -shape.rank(); --axis) {
    const std::int64_t index = i % shape[axis];
    i /= shape[axis];
    if (axis < -own.rank()) continue;
    place += own[axis] == 1 ? 0 : index * stride;
    stride *= own[axis];
  }
  return place;
}

// Calls `run` with each number of threads, and restores the number.
inline void with_threads(const std::vector<int>& counts, const std::function<void(int)>& run) {
  const int before = num_threads();
  for (const int count : counts) {
    set_num_threads(count);
    run(count);
  }
  set_num_threads(before);
}

// A value and the gradients of its inputs.
struct Outcome {
  Array y;
  std::vector<Array> gradients;
};

inline Outcome run(const Function& f, const std::vector<Array>& inputs, DType dtype,
                   const Array& g) {
  std::vector<Tensor> variables;
  for (const Array& input : inputs) variables.push_back(Tensor::variable(input.to(dtype)));
  Tape tape;
  const Tensor y = f(variables);
  const Gradients gradients = tape.backward(y, g.to(dtype));
  Outcome outcome{y.value(), {}};
  for (const Tensor& variable : variables) outcome.gradients.push_back(gradients[variable]);
  return outcome;
}

// Compares the gradients of f by each of its inputs with central differences, as
// gradcheck_parameters does. f must be a function of its inputs only.
inline std::vector<GradcheckResult> gradcheck(
    const std::function<Tensor(const std::vector<Tensor>&)>& f, const std::vector<Array>& inputs,
    const GradcheckOptions& options = {}) {
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

}  // namespace tapestry
