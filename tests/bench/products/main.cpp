#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <tapestry/ops.hpp>
#include <vector>

using namespace tapestry;

// The three products of a linear map beside OpenBLAS's sgemm, interleaved, on one thread: medians
// of GFLOP/s, and the ratio with its quartiles. To build it and run it, here with AVX2:
//
//   cmake --install build/release --prefix /tmp/prefix; L=/tmp/prefix/lib/x86_64-linux-gnu
//   c++ -std=c++20 -O2 -o products tests/bench/products/main.cpp -ldl
//     $(PKG_CONFIG_PATH=$L/pkgconfig pkg-config --cflags --libs tapestry)
//   LD_LIBRARY_PATH=$L/glibc-hwcaps/x86-64-v3:$L OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
//     OPENBLAS_CORETYPE=Haswell ./products

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

constexpr int rounds = 21;
constexpr double flops_of_round = 2e9;

// C (m, n) = A · B over k terms; a transposed operand is stored as (k, m) or (n, k).
struct Product {
  std::string name;
  int m, n, k;
  bool transpose_a = false, transpose_b = false;
};

template <class Compute>
double seconds_of(int times, const Compute& compute) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) compute();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Array noise(std::int64_t rows, std::int64_t columns) {
  Array array({rows, columns}, DType::float32);
  float value = 0;
  for (float& x : array.mutable_values<float>()) x = value = 1 - 1.9F * value * value;
  return array;
}

void compare(const Product& p, Sgemm sgemm) {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  const Tensor a(p.transpose_a ? noise(p.k, p.m) : noise(p.m, p.k)),
      b(p.transpose_b ? noise(p.n, p.k) : noise(p.k, p.n));
  Array c({p.m, p.n}, DType::float32);
  const int times = std::max(1, static_cast<int>(flops_of_round / (2.0 * p.m * p.n * p.k)));
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round <= rounds; ++round) {
    ours.push_back(seconds_of(times, [&] { matmul(a, b, {p.transpose_a, p.transpose_b}); }));
    theirs.push_back(seconds_of(times, [&] {
      sgemm(row_major, p.transpose_a ? transposed : plain, p.transpose_b ? transposed : plain, p.m,
            p.n, p.k, 1, a.value().values<float>().data(), p.transpose_a ? p.m : p.k,
            b.value().values<float>().data(), p.transpose_b ? p.k : p.n, 0,
            c.mutable_values<float>().data(), p.n);
    }));
    ratios.push_back(theirs.back() / ours.back());
  }
  for (auto* all : {&ours, &theirs, &ratios}) {
    all->erase(all->begin());  // warms the caches
    std::ranges::sort(*all);
  }
  const double flops = 2e-9 * p.m * p.n * p.k * times;
  fmt::print(
      "{:16} {:4} x {:4} x {:4}  Tapestry {:6.1f}  OpenBLAS {:6.1f}  {:.3f} ({:.3f} to {:.3f})\n",
      p.name, p.m, p.n, p.k, flops / ours[rounds / 2], flops / theirs[rounds / 2],
      ratios[rounds / 2], ratios[rounds / 4], ratios[rounds - 1 - rounds / 4]);
}

int main() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  const auto sgemm = library ? reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm")) : nullptr;
  if (!sgemm) return fmt::print("libopenblas.so.0 with cblas_sgemm is missing\n"), 1;
  struct Map {
    int rows, out, in;
  };
  for (const Map& map : {Map{256, 768, 768}, Map{256, 3072, 768}, Map{256, 768, 3072},
                         Map{1024, 2304, 768}, Map{128, 400, 784}}) {
    compare({"forward", map.rows, map.out, map.in, false, true}, sgemm);
    compare({"input gradient", map.rows, map.in, map.out}, sgemm);
    compare({"weight gradient", map.out, map.in, map.rows, true}, sgemm);
  }
}
