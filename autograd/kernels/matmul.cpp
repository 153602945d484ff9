#include "autograd/kernels/matmul.hpp"

#include <algorithm>

#include "autograd/kernels/bfloat16_matmul.hpp"
#include "autograd/kernels/packed_matmul.hpp"
#include "autograd/kernels/rows.hpp"
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

// One row of C: the dot products of A's with the stored rows of a transposed B, four at a time. The
// time goes into reading B, which packing would read twice.
template <class T>
void multiply_row(const Matmul& matmul, const MatmulOperands& operands) {
  const T* a = reinterpret_cast<const T*>(operands.a);
  const T* b = reinterpret_cast<const T*>(operands.b);
  const T* bias = reinterpret_cast<const T*>(operands.bias);
  T* c = reinterpret_cast<T*>(operands.c);
  const auto write = [&](std::int64_t j, T dot) {
    c[j] = dot + (matmul.accumulate ? c[j] : bias ? bias[j] : T(0));
  };
  constexpr std::int64_t elements_a_piece = 1 << 16;
  const std::int64_t grain = (elements_a_piece / matmul.k + 4) / 4 * 4;
  parallel_for(matmul.n, grain, [&](std::int64_t j, std::int64_t end) {
    for (; j + 4 <= end; j += 4) {
      const std::array<T, 4> dots = dot_four_spans(matmul.k, a, b + j * matmul.k, matmul.k);
      for (std::int64_t i = 0; i < 4; ++i) write(j + i, dots[i]);
    }
    for (; j < end; ++j) write(j, dot_span(matmul.k, a, b + j * matmul.k));
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
