#include "autograd/ops/losses.hpp"

#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

std::int64_t count_targets(const Tensor& logits, std::span<const std::int32_t> targets,
                           std::int32_t ignore_index) {
  std::int64_t count = 0;
  for (std::int32_t target : targets) {
    require(target == ignore_index || (target >= 0 && target < logits.dim(-1)),
            "cross_entropy: target {} with logits {}", target, to_string(logits.shape()));
    count += target != ignore_index;
  }
  return count;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Array& targets,
                     const CrossEntropyOptions& options) {
  check_floating("cross_entropy", logits);
  Shape rows = logits.shape();
  require(rows.rank() >= 2, "cross_entropy: logits {}", to_string(rows));
  rows = Shape(rows.begin(), rows.end() - 1);
  require(targets.shape() == rows && targets.dtype() == DType::int32 && logits.dim(-1) > 0,
          "cross_entropy: logits {} with {} targets {}", to_string(logits.shape()),
          to_string(targets.dtype()), to_string(targets.shape()));
  const std::int64_t N = targets.size(), V = logits.dim(-1);
  const std::int32_t* target = targets.values<std::int32_t>().data();
  const std::int64_t count =
      count_targets(logits, targets.values<std::int32_t>(), options.ignore_index);
  const double weight =
      options.mean ? 1.0 / static_cast<double>(std::max<std::int64_t>(1, count)) : 1.0;

  // -Σ q log p = log Σ e^x - (1 - s) x[target] - s mean(x), with smoothing s and x shifted by its
  // maximum.
  Array losses(rows, logits.dtype()), highs(rows, logits.dtype()), rests(rows, logits.dtype());
  dispatch(logits.dtype(), [&]<class T>() {
    const T* x = logits.value().values<T>().data();
    T* loss = losses.mutable_values<T>().data();
    T* high = highs.mutable_values<T>().data();
    T* rest = rests.mutable_values<T>().data();
    const T smoothing = static_cast<T>(options.label_smoothing);
    for_each_row(N, V, [=, ignored = options.ignore_index](std::int64_t row) {
      const T* values = x + row * V;
      const LogSum<T> log_sum = log_sum_exp(V, values);
      const T shift = high[row] = log_sum.high;
      rest[row] = log_sum.rest;
      loss[row] = T(0);
      if (target[row] == ignored) return;
      loss[row] = rest[row] - (T(1) - smoothing) * (values[target[row]] - shift);
      if (smoothing == 0) return;
      const auto add = [shift](auto sum, auto v) { return sum + (v - shift); };
      const T sum = sum_lanes(fold_span<T>(V, Simd<T>(T(0)), shift, add, values));
      loss[row] -= smoothing * sum / static_cast<T>(V);
    });
  });
  const Array total = Array::full({}, sum_all(losses) * weight, logits.dtype());

  // dx = (p - q) weight dy
  return record("cross_entropy", total, {logits},
                [logits = logits.value(), targets, highs, rests, options, weight, N, V](
                    const Array& gradient, InputGradients& into) {
                  Array dlogits = reuse(logits);
                  dispatch(logits.dtype(), [&]<class T>() {
                    const T* x = logits.values<T>().data();
                    const T* high = highs.values<T>().data();
                    const T* rest = rests.values<T>().data();
                    const std::int32_t* wanted = targets.values<std::int32_t>().data();
                    T* dx = dlogits.mutable_values<T>().data();
                    const T factor = gradient.values<T>()[0] * static_cast<T>(weight);
                    const T smoothing = static_cast<T>(options.label_smoothing);
                    for_each_row(N, V, [=, ignored = options.ignore_index](std::int64_t row) {
                      T* out = dx + row * V;
                      if (wanted[row] == ignored) {
                        std::fill_n(out, V, T(0));
                        return;
                      }
                      const T spread = smoothing / static_cast<T>(V);
                      map_span<T>(
                          V,
                          [=, shift = high[row], others = rest[row]](auto v) {
                            return factor * (exp(v - shift - others) - spread);
                          },
                          out, x + row * V);
                      out[wanted[row]] -= factor * (T(1) - smoothing);
                    });
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
