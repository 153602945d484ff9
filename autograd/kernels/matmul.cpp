#include "autograd/kernels/matmul.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/kernels/dot_rows.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

thread_local MatmulPrecision precision = MatmulPrecision::float32;

double flops_of(const Matmul& matmul) { return 2.0 * matmul.m * matmul.n * matmul.k; }

// Writes C = bias or 0 if k = 0: a sum without terms.
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

// Number of rows for 4 columns in registers.
constexpr int rows_together = vector_registers == 32 ? 4 : 3;

// Computes the elements of C of all rows and a register of columns: a few columns of B at a time,
// which stay in the L1 cache for all rows. Each pass prefetches some of the following columns,
// so that it rarely waits for memory.
template <class T, class B>
void multiply_columns(std::int64_t m, std::int64_t k, std::int64_t n, const T* a, const B* b,
                      const T* start, std::int64_t start_row, T* c) {
  constexpr int width = simd_width<T>, columns = std::min(4, width);
  Lanes<T> square[few_rows][width];
  for (int column = 0; column < width; column += columns) {
    std::int64_t i = 0, pass = 0;
    const auto multiply = [&]<int rows>() {
      const auto dots = m <= rows_together ? dot_lanes<T, rows, columns, columns, B>
                                           : dot_lanes<T, rows, columns, 1, B>;
      const auto sums = dots(k, a + i * k, k, element(b, column * k), k, columns + pass++);
      for (int r = 0; r < rows; ++r) std::memcpy(&square[i + r][column], &sums[r], sizeof(sums[r]));
      i += rows;
    };
    while (i + rows_together <= m) multiply.template operator()<rows_together>();
    if (rows_together > 2 && i + 2 <= m) multiply.template operator()<2>();
    while (i < m) multiply.template operator()<1>();
  }
  for (std::int64_t i = 0; i < m; ++i) {
    const Simd<T> dots = sum_each<T>(square[i]);
    (start ? dots + Simd<T>::load_unaligned(start + i * start_row) : dots)
        .store_unaligned(c + i * n);
  }
}

// Returns the numbers of a row of B. `memory` holds them if they are quantized.
template <class T>
const T* numbers_of(const T* row, std::int64_t, std::vector<T>&) {
  return row;
}
const float* numbers_of(const Q8Block* row, std::int64_t n, std::vector<float>& memory) {
  memory.resize(n);
  read_q8_blocks(row, n, memory.data());
  return memory.data();
}

// Computes C = A · Bᵀ for few rows of A, with the same bits as for each row alone. B has numbers of
// type T, or is quantized, with the same bits as for its numbers.
template <class T, class B>
void multiply_few_rows(const Matmul& matmul, const MatmulOperands& operands) {
  constexpr std::int64_t width = simd_width<T>, elements_a_piece = 1 << 16;
  const T* a = reinterpret_cast<const T*>(operands.a);
  const B* b = reinterpret_cast<const B*>(operands.b);
  T* c = reinterpret_cast<T*>(operands.c);
  const T* start = matmul.accumulate ? c : reinterpret_cast<const T*>(operands.bias);
  const std::int64_t m = matmul.m, n = matmul.n, k = matmul.k;
  const std::int64_t start_row = matmul.accumulate ? n : 0;
  const std::int64_t grain = (elements_a_piece / (m * k) + width) / width * width;
  parallel_for(n, grain, [&](std::int64_t j, std::int64_t end) {
    for (; j + width <= end; j += width)
      multiply_columns(m, k, n, a, element(b, j * k), start ? start + j : nullptr, start_row,
                       c + j);
    for (std::vector<T> memory; j < end; ++j) {
      const T* numbers = numbers_of(element(b, j * k), k, memory);
      for (std::int64_t i = 0; i < m; ++i)
        c[i * n + j] = dot_span(k, a + i * k, numbers) + (start ? start[i * start_row + j] : T(0));
    }
  });
}

bool has_few_rows(const Matmul& matmul) {
  return matmul.transpose_b && (matmul.m == 1 || (matmul.m <= few_rows && !matmul.transpose_a));
}

bool is_rounded(const Matmul& matmul, MatmulPrecision wanted) {
  return wanted == MatmulPrecision::bfloat16 && matmul.dtype == DType::float32 && matmul.m > 1;
}

void multiply(const Matmul& matmul, const MatmulOperands& operands, MatmulPrecision wanted) {
  if (is_rounded(matmul, wanted)) return multiply_rounded(matmul, operands);
  if (!has_few_rows(matmul)) return multiply_packed(matmul, operands);
  dispatch(matmul.dtype, [&]<class T>() { multiply_few_rows<T, T>(matmul, operands); });
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
  const MatmulPrecision wanted = precision;  // of this thread, not of those that help it
  // Large products are divided one after the other; of small ones, each thread computes several.
  constexpr double worth_cutting = 16e6, worth_a_thread = 2e6;
  if (batch.size() == 1 || flops >= worth_cutting) {
    for (const MatmulOperands& operands : batch) multiply(matmul, operands, wanted);
    return;
  }
  const std::int64_t grain = std::max(1.0, worth_a_thread / flops);
  parallel_for(std::ssize(batch), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) multiply(matmul, batch[i], wanted);
  });
}

bool reads_panels(const Matmul& matmul) {
  return !is_rounded(matmul, precision) && !has_few_rows(matmul);
}

void multiply_q8_0(const Matmul& matmul, const MatmulOperands& operands) {
  if (matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) return write_empty_sum(matmul, operands);
  profile::add_flops(flops_of(matmul));
  multiply_few_rows<float, Q8Block>(matmul, operands);
}

void set_matmul_precision(MatmulPrecision wanted) { precision = wanted; }
MatmulPrecision matmul_precision() { return precision; }

std::string backend_names() {
  const std::string bfloat16 = bfloat16_name();
  return tile_name() + (bfloat16.empty() ? "" : ", bfloat16 by " + bfloat16);
}

}  // namespace tapestry
