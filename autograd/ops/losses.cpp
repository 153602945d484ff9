#include "autograd/ops/losses.hpp"

#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

std::int64_t count_targets(const Tensor& logits, std::span<const std::int32_t> targets,
                           std::int32_t ignore_index) {
  if (is_dry_run()) return std::ssize(targets);
  const auto is_wrong = [=, V = logits.dim(-1)](std::int32_t target) {
    return target != ignore_index && (target < 0 || target >= V);
  };
  if (const auto wrong = std::ranges::find_if(targets, is_wrong); wrong != targets.end())
    require(false, "cross_entropy: target {} with logits {}; expected 0 to {}, or {} to ignore it",
            *wrong, logits.shape(), logits.dim(-1) - 1, ignore_index);
  return std::ssize(targets) - std::ranges::count(targets, ignore_index);
}

// Returns the loss of each row x of the logits: -Σ q log p, where p is the softmax of x, and q the
// target smoothed by s. The loss is log Σ e^x - (1 - s) x[target] - s mean(x), with x shifted by
// its maximum. `highs` and `rests` become the terms of log Σ e^x.
Array losses_of(const Array& logits, const Array& targets, const CrossEntropyOptions& options,
                Array& highs, Array& rests) {
  Array losses(highs.shape(), logits.dtype());
  const std::int64_t V = logits.dim(-1);
  const std::int32_t* target = targets.values<std::int32_t>().data();
  dispatch(logits.dtype(), [&]<class T>() {
    const T* x = logits.values<T>().data();
    T* loss = losses.mutable_values<T>().data();
    T* high = highs.mutable_values<T>().data();
    T* rest = rests.mutable_values<T>().data();
    const T smoothing = options.label_smoothing;
    for_each_row(losses.size(), V, [=, ignored = options.ignore_index](std::int64_t row) {
      const T* values = x + row * V;
      const LogSum<T> log_sum = log_sum_exp(V, values);
      const T shift = high[row] = log_sum.high;
      rest[row] = log_sum.rest;
      loss[row] = T(0);
      if (target[row] == ignored) return;
      loss[row] = rest[row] - (T(1) - smoothing) * (values[target[row]] - shift);
      if (smoothing == 0) return;
      const auto add = [shift](auto sum, auto v) { return sum + (v - shift); };
      const T sum = sum_lanes(sum_terms(V, {values}, shift, add));
      loss[row] -= smoothing * sum / V;
    });
  });
  return losses;
}

// Computes dx = (p - q) factor, and 0 in the rows of ignored targets.
template <class T>
void write_logit_gradients(const Array& logits, const Array& targets,
                           const CrossEntropyOptions& options, const Array& highs,
                           const Array& rests, T factor, Array& dlogits) {
  const std::int64_t V = logits.dim(-1);
  const T* x = logits.values<T>().data();
  const T* high = highs.values<T>().data();
  const T* rest = rests.values<T>().data();
  const std::int32_t* target = targets.values<std::int32_t>().data();
  T* dx = dlogits.mutable_values<T>().data();
  const T smoothing = options.label_smoothing, spread = smoothing / V;
  for_each_row(targets.size(), V, [=, ignored = options.ignore_index](std::int64_t row) {
    T* out = dx + row * V;
    if (target[row] == ignored) {
      std::fill_n(out, V, T(0));
      return;
    }
    map_span(V, {x + row * V}, out, [=, shift = high[row], others = rest[row]](auto v) {
      return factor * (exp(v - shift - others) - spread);
    });
    out[target[row]] -= factor * (T(1) - smoothing);
  });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Array& targets,
                     const CrossEntropyOptions& options) {
  check_floating("cross_entropy", logits);
  Shape rows = logits.shape();
  require(rows.rank() >= 2, "cross_entropy: logits {}; expected (..., N, V)", rows);
  rows = Shape(rows.begin(), rows.end() - 1);
  require(logits.dim(-1) > 0, "cross_entropy: logits {}; expected at least one class",
          logits.shape());
  require_array("cross_entropy", "targets", targets, DType::int32, rows);
  const std::int64_t count =
      count_targets(logits, targets.values<std::int32_t>(), options.ignore_index);
  const double weight = options.mean ? 1.0 / std::max<std::int64_t>(1, count) : 1.0;
  Array highs(rows, logits.dtype()), rests(rows, logits.dtype());
  const Array losses = losses_of(logits.value(), targets, options, highs, rests);
  const Array total = Array::full({}, sum_all(losses) * weight, logits.dtype());
  return record("cross_entropy", total, {logits},
                [logits = logits.value(), targets, highs, rests, options, weight](
                    const Array& gradient, InputGradients& into) {
                  Array dlogits = reuse(logits);
                  dispatch(logits.dtype(), [&]<class T>() {
                    const T factor = gradient.values<T>()[0] * T(weight);
                    write_logit_gradients(logits, targets, options, highs, rests, factor, dlogits);
                  });
                  into.add(0, dlogits);
                });
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets) {
  return binary(
      "binary_cross_entropy", logits, targets,
      [](auto x, auto t) { return max(x, decltype(x)(0)) - x * t + log1p(exp(-abs(x))); },
      [](auto g, auto x, auto t) { return g * (logistic(x) - t); },
      [](auto g, auto x, auto) { return -g * x; });
}

Tensor squared_error(const Tensor& prediction, const Tensor& target) {
  return binary(
      "squared_error", prediction, target, [](auto x, auto t) { return (x - t) * (x - t); },
      [](auto g, auto x, auto t) { return (g + g) * (x - t); },
      [](auto g, auto x, auto t) { return (g + g) * (t - x); });
}

Tensor gaussian_kl(const Tensor& mean, const Tensor& log_sigma) {
  return binary(
      "gaussian_kl", mean, log_sigma,
      [](auto m, auto s) {
        using T = Scalar<decltype(m)>;
        return T(0.5) * (m * m + expm1(s + s)) - s;
      },
      [](auto g, auto m, auto) { return g * m; },
      [](auto g, auto, auto s) { return g * expm1(s + s); });
}

}  // namespace tapestry
