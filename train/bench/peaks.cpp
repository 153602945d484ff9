#include "train/bench/peaks.hpp"

#include <algorithm>
#include <functional>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/random.hpp"
#include "train/bench/benchmark.hpp"

namespace tapestry {
namespace {

double fastest_time(const std::function<void()>& work) {
  work();
  double fastest = time_once(work);
  for (int i = 0; i < 12; ++i) fastest = std::min(fastest, time_once(work));
  return fastest;
}

}  // namespace

double measure_matrix_peak() {
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
  constexpr std::int64_t n = 1 << 24;  // 64 MB each: beyond the caches
  Array a = Array::zeros({n});
  const Array b = Array::zeros({n});
  return 3.0 * static_cast<double>(a.bytes()) / fastest_time([&] { add_in_place(a, b); }) / 1e9;
}

}  // namespace tapestry
