#include "autograd/kernels/matmul.hpp"

#include <algorithm>

#include "autograd/kernels/bfloat16_matmul.hpp"
#include "autograd/kernels/packed_matmul.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/squares.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

MatmulPrecision precision = MatmulPrecision::float32;

double flops_of(const Matmul& matmul) { return 2.0 * matmul.m * matmul.n * matmul.k; }

// C = bias or 0, where k = 0: a sum of no terms.
void write_empty_sum(const Matmul& matmul, const MatmulOperands& operands) {
  if (matmul.accumulate) return;
  const std::size_t row = matmul.n * size_of(matmul.dtype);
  for (std::int64_t i = 0; i < matmul.m; ++i) {
    std::byte* to = operands.c + i * row;
    if (operands.bias)
      std::copy_n(operands.bias, row, to);
    else
      std::fill_n(to, row, std::byte{0});
  }
}

// sums[i] = the lanes of x · yᵢ, for as many rows y, `stride` elements apart, as a register has
// lanes. Long sums are the sum of their halves.
template <class T>
void dot_rows(std::int64_t n, const T* x, const T* y, std::int64_t stride,
              Simd<T> (&sums)[simd_width<T>]) {
  constexpr std::int64_t width = simd_width<T>;
  if (n > run_of_span<T>) {
    const std::int64_t half = first_half<T>(n);
    Simd<T> rest[width];
    dot_rows(half, x, y, stride, sums);
    dot_rows(n - half, x + half, y + half, stride, rest);
    for (int row = 0; row < width; ++row) sums[row] += rest[row];
    return;
  }
  Simd<T> running[width];
#pragma GCC unroll 16
  for (int row = 0; row < width; ++row) running[row] = Simd<T>(T(0));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Simd<T> v = Simd<T>::load_unaligned(x + i);
#pragma GCC unroll 16
    for (int row = 0; row < width; ++row)
      running[row] = xsimd::fma(v, Simd<T>::load_unaligned(y + row * stride + i), running[row]);
  }
  if (i < n)
    for (int row = 0; row < width; ++row)
      running[row] = xsimd::fma(load_partial(x + i, n - i),
                                load_partial(y + row * stride + i, n - i), running[row]);
#pragma GCC unroll 16
  for (int row = 0; row < width; ++row) sums[row] = running[row];
}

// One row of C: the dot products of A's with the stored rows of a transposed B, a register of them
// at a time. The time goes into reading B, which packing would read twice.
template <class T>
void multiply_row(const Matmul& matmul, const MatmulOperands& operands) {
  constexpr std::int64_t width = simd_width<T>, elements_a_piece = 1 << 16;
  const T* a = reinterpret_cast<const T*>(operands.a);
  const T* b = reinterpret_cast<const T*>(operands.b);
  T* c = reinterpret_cast<T*>(operands.c);
  const T* start = matmul.accumulate ? c : reinterpret_cast<const T*>(operands.bias);
  const std::int64_t k = matmul.k;
  const std::int64_t grain = (elements_a_piece / k + width) / width * width;
  parallel_for(matmul.n, grain, [&](std::int64_t j, std::int64_t end) {
    for (; j + width <= end; j += width) {
      Simd<T> sums[width];
      dot_rows(k, a, b + j * k, k, sums);
      Lanes<T> square[width];
      std::memcpy(square, sums, sizeof(square));
      const Simd<T> dots = sum_each<T>(square);
      (start ? dots + Simd<T>::load_unaligned(start + j) : dots).store_unaligned(c + j);
    }
    for (; j < end; ++j) c[j] = dot_span(k, a, b + j * k) + (start ? start[j] : T(0));
  });
}

void multiply(const Matmul& matmul, const MatmulOperands& operands) {
  if (matmul.m > 1 || !matmul.transpose_b) return multiply_packed(matmul, operands);
  dispatch(matmul.dtype, [&]<class T>() { multiply_row<T>(matmul, operands); });
}

}  // namespace

void multiply_matrices(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  if (batch.empty() || matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) {
    for (const MatmulOperands& operands : batch) write_empty_sum(matmul, operands);
    return;
  }
  const double flops = flops_of(matmul);
  profile::add_flops(flops * batch.size());
  if (precision == MatmulPrecision::bfloat16 && matmul.dtype == DType::float32 && matmul.m > 1)
    return multiply_rounded(matmul, batch);
  // Large products are cut themselves, one after the other; of small ones, a thread gets some
  // whole.
  constexpr double worth_cutting = 16e6, worth_a_thread = 2e6;
  if (batch.size() == 1 || flops >= worth_cutting) {
    for (const MatmulOperands& operands : batch) multiply(matmul, operands);
    return;
  }
  const std::int64_t grain = std::max(1.0, worth_a_thread / flops);
  parallel_for(std::ssize(batch), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) multiply(matmul, batch[i]);
  });
}

void set_matmul_precision(MatmulPrecision wanted) { precision = wanted; }

std::string matrix_engine_names() {
  const std::string onednn = onednn_name();
  return tile_name() + (onednn.empty() ? "" : ", " + onednn);
}

}  // namespace tapestry
