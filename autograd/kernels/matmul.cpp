#include "autograd/kernels/matmul.hpp"

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <complex>  // xflens needs it and does not include it
#include <map>
#include <tuple>
#include <xtensor-blas/xblas_config.hpp>

// The configuration above has to come first: without it xflens multiplies with loops of its own.
#include <xflens/cxxblas/cxxblas.cxx>
#ifndef HAVE_CBLAS
#error "xtensor-blas is not configured to call a BLAS"
#endif

extern "C" char* openblas_get_config();  // xflens declares none but the functions of a BLAS
extern "C" char* openblas_get_corename();

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/bfloat16.hpp"
#include "autograd/kernels/onednn.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

MatmulPrecision precision = MatmulPrecision::float32;

// Both engines ask OpenMP how many threads to use; inside a block the answer is one.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

template <class T>
void multiply_openblas(const Block& block, const T* a, const T* b, T* c) {
  const auto transposed = [](bool is) { return is ? cxxblas::Trans : cxxblas::NoTrans; };
  using Index = xt::blas_index_t;
  cxxblas::gemm<Index>(cxxblas::RowMajor, transposed(block.transpose_a),
                       transposed(block.transpose_b), block.m, block.n, block.k, T(1), a,
                       block.row_a, b, block.row_b, T(block.accumulate), c, block.row_c);
}

// One row of C: the dot products of `a` with the stored rows of a transposed B, four at a time. The
// time goes into reading B, which the engines would read twice, since they pack it first.
template <class T>
void multiply_row(const Block& block, const T* a, const T* b, T* c) {
  std::int64_t j = 0;
  for (; j + 4 <= block.n; j += 4) {
    const std::array<T, 4> dots = dot_four_spans(block.k, a, b + j * block.row_b, block.row_b);
    for (std::int64_t i = 0; i < 4; ++i) c[j + i] = dots[i] + (block.accumulate ? c[j + i] : T(0));
  }
  for (; j < block.n; ++j)
    c[j] = dot_span(block.k, a, b + j * block.row_b) + (block.accumulate ? c[j] : T(0));
}

template <class T>
void multiply(const Block& block, const T* a, const T* b, T* c) {
  if (block.m == 1 && block.transpose_b && !block.transpose_a) return multiply_row(block, a, b, c);
  const OneThread one_thread;
  if constexpr (std::is_same_v<T, float>)
    if (onednn::multiply(block, a, b, c)) return;
  multiply_openblas(block, a, b, c);
}

// float32 of an operand of `rows` × `columns`, whose rows are `row` elements apart.
Array widened(const BFloat16* from, std::int64_t rows, std::int64_t columns, std::int64_t row) {
  Array to({(rows - 1) * row + columns});
  std::transform(from, from + to.size(), to.mutable_values<float>().begin(), to_float);
  return to;
}

// Where oneDNN has no such product, the operands become float32, which holds them exactly.
void multiply(Block block, const BFloat16* a, const BFloat16* b, float* c) {
  {
    const OneThread one_thread;
    block.bfloat16 = true;
    if (onednn::multiply(block, a, b, c)) return;
    block.bfloat16 = false;
  }
  const auto [m, n, k] = std::tuple(block.m, block.n, block.k);
  const Array wide_a =
      widened(a, block.transpose_a ? k : m, block.transpose_a ? m : k, block.row_a);
  const Array wide_b =
      widened(b, block.transpose_b ? n : k, block.transpose_b ? k : n, block.row_b);
  multiply(block, wide_a.values<float>().data(), wide_b.values<float>().data(), c);
}

// Rows of C start as the bias, so that the product adds to it while it is in the cache.
template <class T>
void write_bias(const Block& block, const T* bias, T* c) {
  for (std::int64_t row = 0; row < block.m; ++row)
    std::copy_n(bias, block.n, c + row * block.row_c);
}

double flops_of(const Matmul& matmul) { return 2.0 * matmul.m * matmul.n * matmul.k; }

// C is cut along its longer side, into 1, 2 or 4 pieces, each worth waking a thread for; its size
// alone decides. Each piece packs the whole of the other operand again, so more pieces lose more
// than a further thread gains: eight pieces on two cores lost a third.
struct Cut {
  bool rows;
  std::int64_t extent, piece, pieces = 1;

  explicit Cut(const Matmul& matmul)
      : rows(matmul.m >= matmul.n), extent(rows ? matmul.m : matmul.n) {
    const double least_flops = matmul.m == 1 ? 2e5 : 4e6;  // a row is bound by memory
    constexpr std::int64_t least_extent = 16;
    while (pieces < 4 && extent / (2 * pieces) >= least_extent &&
           flops_of(matmul) / (2 * pieces) >= least_flops)
      pieces *= 2;
    piece = ((extent + pieces - 1) / pieces + least_extent - 1) / least_extent * least_extent;
    pieces = (extent + piece - 1) / piece;
  }
};

template <class In, class T>
void run_block(const Matmul& matmul, const MatmulOperands& operands, const Cut& cut,
               std::int64_t index) {
  const std::int64_t begin = index * cut.piece;
  const std::int64_t length = std::min(cut.extent, begin + cut.piece) - begin;
  const Block block{.m = cut.rows ? length : matmul.m,
                    .n = cut.rows ? matmul.n : length,
                    .k = matmul.k,
                    .transpose_a = matmul.transpose_a,
                    .transpose_b = matmul.transpose_b,
                    .accumulate = matmul.accumulate || operands.bias,
                    .row_a = matmul.transpose_a ? matmul.m : matmul.k,
                    .row_b = matmul.transpose_b ? matmul.k : matmul.n,
                    .row_c = matmul.n};
  const In* a = reinterpret_cast<const In*>(operands.a);
  const In* b = reinterpret_cast<const In*>(operands.b);
  const T* bias = reinterpret_cast<const T*>(operands.bias);
  T* c = reinterpret_cast<T*>(operands.c);
  if (cut.rows) {
    a += begin * (matmul.transpose_a ? 1 : matmul.k);
    c += begin * matmul.n;
  } else {
    b += begin * (matmul.transpose_b ? matmul.k : 1);
    c += begin;
    if (bias) bias += begin;
  }
  if (bias) write_bias(block, bias, c);
  multiply(block, a, b, c);
}

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

// The products of a batch, whose operands are of type In.
template <class In, class T>
void run_batch(const Matmul& matmul, const std::vector<MatmulOperands>& batch, const Cut& cut) {
  // Small products of a large batch share a piece.
  const double flops = std::max(1.0, flops_of(matmul) / cut.pieces);
  const std::int64_t grain = std::max(1.0, 4e6 / flops);
  const std::int64_t blocks = std::ssize(batch) * cut.pieces;
  parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_block<In, T>(matmul, batch[i / cut.pieces], cut, i % cut.pieces);
  });
}

// Copies of the batch's operands of Aᵀ B with rows of zeros behind, up to k = terms.
class LengthenedOperands {
 public:
  LengthenedOperands(const Matmul& matmul, const std::vector<MatmulOperands>& batch,
                     std::int64_t terms)
      : batch_(batch) {
    const std::size_t size = size_of(matmul.dtype);
    for (MatmulOperands& operands : batch_) {
      operands.a = lengthen(operands.a, matmul.k, terms, matmul.m * size);
      operands.b = lengthen(operands.b, matmul.k, terms, matmul.n * size);
    }
  }
  const std::vector<MatmulOperands>& batch() const { return batch_; }

 private:
  // Rows of so many bytes.
  const std::byte* lengthen(const std::byte* operand, std::int64_t rows, std::int64_t wanted,
                            std::size_t bytes) {
    copies_.push_back(allocate(wanted * bytes));
    std::byte* copy = copies_.back().get();
    const std::int64_t grain = 1 + (1 << 18) / bytes;
    parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
      std::copy(operand + begin * bytes, operand + end * bytes, copy + begin * bytes);
    });
    std::fill(copy + rows * bytes, copy + wanted * bytes, std::byte{0});
    return copy;
  }

  std::vector<MatmulOperands> batch_;
  std::vector<std::shared_ptr<std::byte[]>> copies_;
};

// Copies of the batch's operands, rounded to bfloat16 and stored as Rounded.
template <class Rounded>
class RoundedOperands {
 public:
  RoundedOperands(const Matmul& matmul, const std::vector<MatmulOperands>& batch) : batch_(batch) {
    for (MatmulOperands& operands : batch_) {
      operands.a = round(operands.a, matmul.m * matmul.k);
      operands.b = round(operands.b, matmul.k * matmul.n);
    }
  }
  const std::vector<MatmulOperands>& batch() const { return batch_; }

 private:
  const std::byte* round(const std::byte* operand, std::int64_t n) {
    std::shared_ptr<std::byte[]>& copy = copies_[operand];
    if (copy) return copy.get();  // another product of the batch reads it, too
    copy = allocate(n * sizeof(Rounded));
    const auto* from = reinterpret_cast<const float*>(operand);
    auto* to = reinterpret_cast<Rounded*>(copy.get());
    parallel_for(n, 65536, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) store_rounded(from[i], to[i]);
    });
    return copy.get();
  }

  std::vector<MatmulOperands> batch_;
  std::map<const std::byte*, std::shared_ptr<std::byte[]>> copies_;
};

}  // namespace

void multiply_matrices(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  if (batch.empty() || matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) {
    for (const MatmulOperands& operands : batch) write_empty_sum(matmul, operands);
    return;
  }
  profile::add_flops(flops_of(matmul) * batch.size());
  const Cut cut(matmul);
  if (precision == MatmulPrecision::bfloat16 && matmul.dtype == DType::float32 && matmul.m > 1) {
    if (has_bfloat16_products())
      run_batch<BFloat16, float>(matmul, RoundedOperands<BFloat16>(matmul, batch).batch(), cut);
    else
      run_batch<float, float>(matmul, RoundedOperands<float>(matmul, batch).batch(), cut);
    return;
  }
  const bool lengthens =
      matmul.dtype == DType::float32 && matmul.transpose_a && !matmul.transpose_b;
  const std::int64_t terms = lengthens ? onednn::round_up_terms(matmul.k) : matmul.k;
  if (terms != matmul.k) {
    const LengthenedOperands lengthened(matmul, batch, terms);
    Matmul longer = matmul;
    longer.k = terms;
    return run_batch<float, float>(longer, lengthened.batch(), cut);
  }
  dispatch(matmul.dtype, [&]<class T>() { run_batch<T, T>(matmul, batch, cut); });
}

void set_matmul_precision(MatmulPrecision wanted) { precision = wanted; }

bool has_bfloat16_products() { return onednn::has_bfloat16_products(); }

std::string matrix_engine_names() {
  const std::string configuration = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH …"
  const std::string blas = configuration.substr(0, configuration.find(' ', sizeof("OpenBLAS")));
  const std::string openblas = fmt::format("{} ({})", blas, openblas_get_corename());
  const std::string other = onednn::name();
  return other.empty() ? openblas : fmt::format("{}, {}", other, openblas);
}

void set_use_onednn(bool use) { onednn::set_use(use); }

}  // namespace tapestry
