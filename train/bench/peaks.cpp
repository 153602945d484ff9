#include "train/bench/peaks.hpp"

#include <algorithm>
#include <chrono>

#include "autograd/kernels/limits.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"

namespace tapestry {
namespace {

double fastest_time(const std::function<void()>& work) {
  work();
  double fastest = time_once(work);
  for (int i = 0; i < 12; ++i) fastest = std::min(fastest, time_once(work));
  return fastest;
}

}  // namespace

double time_once(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double measure_arithmetic_peak() {
  constexpr std::int64_t rows_a_thread = 32, times = 20'000;  // some milliseconds
  Array x = Array::full({rows_a_thread * num_threads(), limit_columns}, 1);
  const double flops = 2.0 * times * static_cast<double>(x.size());
  return flops / fastest_time([&] { turn_signs(x, times); }) / 1e9;
}

double measure_best_product() {
  constexpr std::int64_t n = 1536;
  Array a({n, n}), b({n, n}), c({n, n});
  Random random(0, Stream::init);
  random.fill_uniform(a, -1, 1);
  random.fill_uniform(b, -1, 1);
  const auto multiply = [&] {
    multiply_matrices({.m = n, .n = n, .k = n}, {{a.raw(), b.raw(), c.mutable_raw()}});
  };
  return 2.0 * n * n * n / fastest_time(multiply) / 1e9;
}

double measure_memory_peak() {
  constexpr std::int64_t rows = 1 << 16;  // 200 MB: beyond most caches
  Array x = Array::full({rows, limit_columns}, 1);
  return 2.0 * static_cast<double>(x.bytes()) / fastest_time([&] { turn_signs(x, 1); }) / 1e9;
}

}  // namespace tapestry
