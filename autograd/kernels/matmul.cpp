#include "autograd/kernels/matmul.hpp"

#include <fmt/core.h>
#include <omp.h>

#include <complex>  // xflens needs it and does not include it
#include <map>
#include <tuple>
#include <xtensor-blas/xblas_config.hpp>

// Before this line the configuration: without it xflens multiplies with loops of its own.
#include <xflens/cxxblas/cxxblas.cxx>
#ifndef HAVE_CBLAS
#error "xtensor-blas is not configured to call a BLAS"
#endif

#ifdef TAPESTRY_ONEDNN
#include <dnnl.hpp>
#endif

#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

#ifdef TAPESTRY_ONEDNN
bool use_onednn = true;
#else
constexpr bool use_onednn = false;
#endif

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

// A block of C and what it needs, with the distance between stored rows.
struct Block {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t row_a, row_b, row_c;
  auto operator<=>(const Block&) const = default;
};

#ifdef TAPESTRY_ONEDNN

struct CachedProduct {
  dnnl::matmul product;
  dnnl::memory a, b, c;
  std::unordered_map<int, dnnl::memory> arguments;
};

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

CachedProduct make_product(const Block& block) {
  using dnnl::memory;
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t row,
                         bool transpose) {
    return memory::desc({rows, columns}, memory::data_type::f32,
                        transpose ? memory::dims{1, row} : memory::dims{row, 1});
  };
  const auto a = matrix(block.m, block.k, block.row_a, block.transpose_a);
  const auto b = matrix(block.k, block.n, block.row_b, block.transpose_b);
  const auto c = matrix(block.m, block.n, block.row_c, false);
  dnnl::primitive_attr attributes;
  if (block.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
  CachedProduct cached{dnnl::matmul(description),
                       memory(a, engine(), nullptr),
                       memory(b, engine(), nullptr),
                       memory(c, engine(), nullptr),
                       {}};
  cached.arguments = {
      {DNNL_ARG_SRC, cached.a}, {DNNL_ARG_WEIGHTS, cached.b}, {DNNL_ARG_DST, cached.c}};
  return cached;
}

// Before AVX-512, oneDNN reads a transposed A where it stands, which costs a third of its speed
// at row lengths that are multiples of 128: 64 GFLOP/s a core on 128×512×768, OpenBLAS 91.
bool suits_onednn(const Block& block) {
  static const bool has_avx512 = (static_cast<int>(dnnl::get_effective_cpu_isa()) &
                                  dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return has_avx512 || !block.transpose_a;
}

// Primitives are cached per thread: the memory objects inside them are not shared.
void multiply_onednn(const Block& block, const float* a, const float* b, float* c) {
  thread_local std::map<Block, CachedProduct> cache;
  thread_local dnnl::stream stream(engine());
  auto cached = cache.find(block);
  if (cached == cache.end()) cached = cache.emplace(block, make_product(block)).first;
  cached->second.a.set_data_handle(const_cast<float*>(a));
  cached->second.b.set_data_handle(const_cast<float*>(b));
  cached->second.c.set_data_handle(c);
  cached->second.product.execute(stream, cached->second.arguments);
  stream.wait();
}

#endif

template <class T>
void multiply_openblas(const Block& block, const T* a, const T* b, T* c) {
  const auto transposed = [](bool is) { return is ? cxxblas::Trans : cxxblas::NoTrans; };
  using Index = xt::blas_index_t;
  cxxblas::gemm<Index>(cxxblas::RowMajor, transposed(block.transpose_a),
                       transposed(block.transpose_b), static_cast<Index>(block.m),
                       static_cast<Index>(block.n), static_cast<Index>(block.k), T(1), a,
                       static_cast<Index>(block.row_a), b, static_cast<Index>(block.row_b),
                       T(block.accumulate), c, static_cast<Index>(block.row_c));
}

// One row of C: the dot products of `a` with four rows of a stored-transposed B at a time. Reading
// B once is all there is to do, and the engines' packing would read it twice.
template <class T>
void multiply_row(const Block& block, const T* a, const T* b, T* c) {
  std::int64_t j = 0;
  for (; j + 4 <= block.n; j += 4) {
    const std::array<T, 4> dots = dot_four_spans(block.k, a, b + j * block.row_b, block.row_b);
    for (std::size_t i = 0; i < 4; ++i)
      c[j + static_cast<std::int64_t>(i)] =
          dots[i] + (block.accumulate ? c[j + static_cast<std::int64_t>(i)] : T(0));
  }
  for (; j < block.n; ++j)
    c[j] = dot_span(block.k, a, b + j * block.row_b) + (block.accumulate ? c[j] : T(0));
}

template <class T>
void multiply(const Block& block, const T* a, const T* b, T* c) {
  if (block.m == 1 && block.transpose_b && !block.transpose_a) return multiply_row(block, a, b, c);
  const OneThread one_thread;
#ifdef TAPESTRY_ONEDNN
  if constexpr (std::is_same_v<T, float>)
    if (use_onednn && suits_onednn(block)) return multiply_onednn(block, a, b, c);
#endif
  multiply_openblas(block, a, b, c);
}

// Rows of C start as the bias, so that the product adds to it while it is in the cache.
template <class T>
void write_bias(const Block& block, const T* bias, T* c) {
  for (std::int64_t row = 0; row < block.m; ++row)
    std::copy_n(bias, block.n, c + row * block.row_c);
}

double flops_of(const Matmul& matmul) {
  return 2.0 * static_cast<double>(matmul.m) * static_cast<double>(matmul.n) *
         static_cast<double>(matmul.k);
}

// How C is cut, by its size alone: along its longer side, into 1, 2 or 4 pieces worth a thread's
// waking up. Each piece packs the whole of the other operand again, so that more pieces lose more
// than they share out: measured on two cores, a third at eight.
struct Cut {
  bool rows;
  std::int64_t extent, piece, pieces = 1;

  explicit Cut(const Matmul& matmul)
      : rows(matmul.m >= matmul.n), extent(rows ? matmul.m : matmul.n) {
    const double least_flops = matmul.m == 1 ? 2e5 : 4e6;  // a row is bound by memory
    constexpr std::int64_t least_extent = 16;
    while (pieces < 4 && extent / (2 * pieces) >= least_extent &&
           flops_of(matmul) / static_cast<double>(2 * pieces) >= least_flops)
      pieces *= 2;
    piece = ((extent + pieces - 1) / pieces + least_extent - 1) / least_extent * least_extent;
    pieces = (extent + piece - 1) / piece;
  }
};

template <class T>
void run_block(const Matmul& matmul, const MatmulOperands& operands, const Cut& cut,
               std::int64_t index) {
  const std::int64_t begin = index * cut.piece;
  const std::int64_t length = std::min(cut.extent, begin + cut.piece) - begin;
  Block block{matmul.m,
              matmul.n,
              matmul.k,
              matmul.transpose_a,
              matmul.transpose_b,
              matmul.accumulate || operands.bias,
              matmul.transpose_a ? matmul.m : matmul.k,
              matmul.transpose_b ? matmul.k : matmul.n,
              matmul.n};
  (cut.rows ? block.m : block.n) = length;
  const T* a = reinterpret_cast<const T*>(operands.a);
  const T* b = reinterpret_cast<const T*>(operands.b);
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

void write_empty_sum(const Matmul& matmul, const MatmulOperands& operands) {
  if (matmul.accumulate) return;
  const std::size_t row = static_cast<std::size_t>(matmul.n) * size_of(matmul.dtype);
  for (std::int64_t i = 0; i < matmul.m; ++i) {
    std::byte* to = operands.c + static_cast<std::size_t>(i) * row;
    if (operands.bias)
      std::copy_n(operands.bias, row, to);
    else
      std::fill_n(to, row, std::byte{0});
  }
}

}  // namespace

void run(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  if (batch.empty() || matmul.m == 0 || matmul.n == 0) return;
  if (matmul.k == 0) {
    for (const MatmulOperands& operands : batch) write_empty_sum(matmul, operands);
    return;
  }
  profile::add_flops(flops_of(matmul) * static_cast<double>(batch.size()));
  const Cut cut(matmul);
  // Small products of a large batch share a piece.
  const double flops = std::max(1.0, flops_of(matmul) / static_cast<double>(cut.pieces));
  const auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(4e6 / flops));
  dispatch(matmul.dtype, [&]<class T>() {
    const auto blocks = static_cast<std::int64_t>(batch.size()) * cut.pieces;
    parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        run_block<T>(matmul, batch[static_cast<std::size_t>(i / cut.pieces)], cut, i % cut.pieces);
    });
  });
}

std::string matrix_engine_name() {
#ifdef TAPESTRY_ONEDNN
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
#else
  return "OpenBLAS";
#endif
}

void set_use_onednn([[maybe_unused]] bool use) {
#ifdef TAPESTRY_ONEDNN
  use_onednn = use;
#endif
}

}  // namespace tapestry
