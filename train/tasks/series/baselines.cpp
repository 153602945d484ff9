#include "train/tasks/series/baselines.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <xtensor/xmath.hpp>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/xtensor.hpp"
#include "layers/models/forecaster.hpp"

namespace tapestry {
namespace {

// The windows of the K targets, R = B · K, in float64. `seen` and `targets` are differences to the
// last value of the window.
struct Windows {
  Tensor last;                            // (R, 1)
  Tensor seen;                            // (R, T)
  Tensor targets;                         // (R, horizon); 0 where none was measured
  Tensor measured;                        // (R, horizon): 1 or 0
  double count;                           // number of measured targets
  std::optional<Tensor> measured_seen{};  // (R, T): 1 or 0; nothing if all were
};

// Returns each series as a row: (B, T, K) -> (B · K, T) float64.
Tensor series_in_rows(const Array& values) {
  return reshape(permute(Tensor(values.to(DType::float64)), {0, 2, 1}),
                 {values.dim(0) * values.dim(2), values.dim(1)});
}

Windows windows_of(const SeriesDataset& data, std::span<const std::int64_t> examples) {
  const Batch batch = data.batch(examples);
  const Tensor inputs =
      series_in_rows(select_series(batch.inputs, 2, data.window().targets).value());
  const Tensor last = slice(inputs, 1, inputs.dim(1) - 1, inputs.dim(1));
  std::optional<Tensor> measured_seen;
  if (const std::optional<Array> all = data.measured_inputs(examples))
    measured_seen = series_in_rows(select_series(*all, 2, data.window().targets).value());
  Array targets = series_in_rows(batch.targets).value().clone(),
        measured(targets.shape(), DType::float64);
  const auto target = targets.mutable_values<double>(),
             is_measured = measured.mutable_values<double>();
  for (std::size_t i = 0; i < target.size(); ++i) {
    is_measured[i] = std::isnan(target[i]) ? 0 : 1;
    if (std::isnan(target[i])) target[i] = 0;
  }
  return {.last = last,
          .seen = inputs - last,
          .targets = (Tensor(targets) - last) * Tensor(measured),
          .measured = measured,
          .count = batch.count,
          .measured_seen = measured_seen};
}

// Calls take(windows) for windows that are `every` examples apart, with many at once.
void for_each_windows(const SeriesDataset& data, std::int64_t every, const auto& take) {
  constexpr std::int64_t most_values = 1 << 20;
  const std::int64_t first[] = {0};
  const Batch one = data.batch(first);
  const std::int64_t at_once =
      std::max<std::int64_t>(1, most_values / (one.inputs.size() + one.targets.size()));
  std::vector<std::int64_t> examples;
  for (std::int64_t example = 0; example < data.size(); example += every) {
    examples.push_back(example);
    if (std::ssize(examples) < at_once && example + every < data.size()) continue;
    take(windows_of(data, examples));
    examples.clear();
  }
}

// Returns the values of windows with a constant in place of the last one, which is 0.
Tensor with_constant(const Windows& windows) {
  const std::int64_t R = windows.seen.dim(0), T = windows.seen.dim(1);
  const Tensor constant = Array::full({R, 1}, 1, DType::float64);
  return T == 1 ? constant : concat({slice(windows.seen, 1, 0, T - 1), constant}, 1);
}

// Returns the x of a x = b by Cholesky's decomposition: a (T, T), symmetric and positive definite,
// b (T, H) -> (T, H).
Array solve(const Array& a, const Array& b) {
  xt::xtensor<double, 2> L = xtensor_view<double, 2>(a);
  xt::xtensor<double, 2> x = xtensor_view<double, 2>(b);
  const std::size_t T = L.shape(0), H = x.shape(1);
  for (std::size_t j = 0; j < T; ++j) {
    for (std::size_t k = 0; k < j; ++k)
      for (std::size_t i = j; i < T; ++i) L(i, j) -= L(i, k) * L(j, k);
    const double root = std::sqrt(L(j, j));
    for (std::size_t i = j; i < T; ++i) L(i, j) /= root;
  }
  const auto subtract_row = [&](std::size_t to, std::size_t from, double factor) {
    for (std::size_t h = 0; h < H; ++h) x(to, h) -= factor * x(from, h);
  };
  for (std::size_t i = 0; i < T; ++i) {  // L y = b
    for (std::size_t k = 0; k < i; ++k) subtract_row(i, k, L(i, k));
    for (std::size_t h = 0; h < H; ++h) x(i, h) /= L(i, i);
  }
  for (std::size_t i = T; i-- > 0;) {  // Lᵀ x = y
    for (std::size_t k = i + 1; k < T; ++k) subtract_row(i, k, L(k, i));
    for (std::size_t h = 0; h < H; ++h) x(i, h) /= L(i, i);
  }
  return array_of(x);
}

// Returns 1 for each window of which all targets were measured, else 0: (R, 1).
Array are_complete(const Windows& windows) {
  const std::int64_t R = windows.measured.dim(0), H = windows.measured.dim(1);
  const double* measured = windows.measured.value().values<double>().data();
  Array complete({R, 1}, DType::float64);
  for (std::int64_t r = 0; r < R; ++r)
    complete.mutable_values<double>()[r] =
        std::all_of(measured + r * H, measured + (r + 1) * H, [](double one) { return one == 1; });
  return complete;
}

// Returns the map from with_constant(windows) to their targets: (T, horizon).
Tensor fit_linear(const SeriesDataset& training) {
  constexpr std::int64_t most_values = 4'000'000;
  const std::int64_t first[] = {0};
  const Batch one = training.batch(first);
  const std::int64_t T = one.inputs.dim(1), H = one.targets.dim(1);
  const std::int64_t every = training.size() * one.inputs.size() / most_values + 1;
  Tensor squares = Array::full({T, T}, 0, DType::float64),
         products = Array::full({T, H}, 0, DType::float64);
  for_each_windows(training, every, [&](const Windows& windows) {
    const Tensor seen = with_constant(windows) * Tensor(are_complete(windows));
    squares = squares + matmul(seen, seen, {.transpose_a = true});
    products = products + matmul(seen, windows.targets, {.transpose_a = true});
  });
  // A small ridge keeps the matrix definite where series are constant.
  const auto matrix = xtensor_view<double, 2>(squares.value());
  const double ridge = 1e-9 * xt::mean(xt::diagonal(matrix))();
  const xt::xtensor<double, 2> identity = xt::eye<double>(static_cast<std::size_t>(T));
  return solve(array_of(matrix + ridge * identity), products.value());
}

// Returns the last measured value at the same place of a season for each target; where there is
// none, the input that stands for it: (R, horizon).
Tensor repeated_measured(const Windows& windows, std::int64_t season) {
  const std::int64_t R = windows.seen.dim(0), T = windows.seen.dim(1), H = windows.targets.dim(1);
  const double* seen = windows.seen.value().values<double>().data();
  const double* is_measured = windows.measured_seen->value().values<double>().data();
  Array repeated({R, H}, DType::float64);
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t last = T - season + h % season;
      std::int64_t t = last;
      while (t >= 0 && is_measured[r * T + t] == 0) t -= season;
      repeated.mutable_values<double>()[r * H + h] = seen[r * T + (t < 0 ? last : t)];
    }
  return repeated;
}

// Returns the last `season` values of each window, repeated over the horizon: (R, horizon).
Tensor repeated_season(const Windows& windows, std::int64_t season) {
  if (windows.measured_seen) return repeated_measured(windows, season);
  const std::int64_t T = windows.seen.dim(1), H = windows.targets.dim(1);
  const Tensor one = slice(windows.seen, 1, T - season, T);
  const std::vector<Tensor> all(static_cast<std::size_t>((H + season - 1) / season), one);
  return slice(concat(all, 1), 1, 0, H);
}

}  // namespace

std::vector<BaselineErrors> baseline_errors(const SeriesDataset* training,
                                            const SeriesDataset& judged, std::int64_t season) {
  std::vector<BaselineErrors> all;
  std::vector<std::function<Tensor(const Windows&)>> forecasts;
  const auto add = [&](const std::string& name, std::function<Tensor(const Windows&)> forecast) {
    all.push_back({.name = name});
    forecasts.push_back(std::move(forecast));
  };
  add("training mean", [](const Windows& windows) { return scale(windows.last, -1); });
  add("last value", [](const Windows& windows) { return scale(windows.last, 0); });
  if (season > 0)
    add(fmt::format("last {} rows (seasonal naive)", season),
        [season](const Windows& windows) { return repeated_season(windows, season); });
  if (training)
    add("linear model", [map = fit_linear(*training)](const Windows& windows) {
      return matmul(with_constant(windows), map);
    });
  double count = 0;
  for_each_windows(judged, 1, [&](const Windows& windows) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Tensor error = windows.targets - forecasts[i](windows) * windows.measured;
      const auto errors = xtensor_view<double>(error.value());
      all[i].mse += xt::sum(xt::square(errors))();
      all[i].mae += xt::sum(xt::abs(errors))();
    }
    count += windows.count;
  });
  for (BaselineErrors& errors : all) {
    errors.mse /= count;
    errors.mae /= count;
  }
  return all;
}

}  // namespace tapestry
