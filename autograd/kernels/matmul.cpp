#include "autograd/kernels/matmul.hpp"

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <complex>  // xflens needs it and does not include it
#include <map>
#include <optional>
#include <tuple>
#include <xtensor-blas/xblas_config.hpp>

// The configuration above has to come first: without it xflens multiplies with loops of its own.
#include <xflens/cxxblas/cxxblas.cxx>
#ifndef HAVE_CBLAS
#error "xtensor-blas is not configured to call a BLAS"
#endif

#ifdef TAPESTRY_ONEDNN
#include <dnnl.hpp>
#endif

extern "C" char* openblas_get_config();  // xflens declares none but the functions of a BLAS
extern "C" char* openblas_get_corename();

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/bfloat16.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

#ifdef TAPESTRY_ONEDNN
bool use_onednn = true;
#else
constexpr bool use_onednn = false;
#endif

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

// The product of one block of C; row_a, row_b and row_c are the distances between stored rows.
struct Block {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t row_a, row_b, row_c;
  bool bfloat16 = false;  // the elements of A and B, but never those of C
  auto operator<=>(const Block&) const = default;
};

#ifdef TAPESTRY_ONEDNN

struct CachedProduct {
  dnnl::matmul product;
  dnnl::memory a, b, c;
  std::unordered_map<int, dnnl::memory> arguments;
};

// oneDNN's engine. Before it is made, oneDNN is told to use no newer instructions than those that
// this library is compiled for.
const dnnl::engine& engine() {
  static const dnnl::engine cpu = [] {
#if !defined(__AVX2__)
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
#elif !defined(__AVX512F__)
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
#endif
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

// Empty where oneDNN has no such product.
std::optional<CachedProduct> make_product(const Block& block) try {
  using dnnl::memory;
  const auto matrix = [](memory::data_type type, std::int64_t rows, std::int64_t columns,
                         std::int64_t row, bool transpose) {
    return memory::desc({rows, columns}, type,
                        transpose ? memory::dims{1, row} : memory::dims{row, 1});
  };
  const auto type = block.bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto a = matrix(type, block.m, block.k, block.row_a, block.transpose_a);
  const auto b = matrix(type, block.k, block.n, block.row_b, block.transpose_b);
  const auto c = matrix(memory::data_type::f32, block.m, block.n, block.row_c, false);
  dnnl::primitive_attr attributes;
  if (block.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR < 3
  const dnnl::matmul::primitive_desc description({a, b, c}, attributes, engine());
#else
  const dnnl::matmul::primitive_desc description(engine(), a, b, c, attributes);
#endif
  CachedProduct cached{dnnl::matmul(description),
                       memory(a, engine(), nullptr),
                       memory(b, engine(), nullptr),
                       memory(c, engine(), nullptr),
                       {}};
  cached.arguments = {
      {DNNL_ARG_SRC, cached.a}, {DNNL_ARG_WEIGHTS, cached.b}, {DNNL_ARG_DST, cached.c}};
  return cached;
} catch (const dnnl::error& error) {
  if (error.status == dnnl_unimplemented) return std::nullopt;
  throw;
}

bool processor_has(dnnl_cpu_isa_t wanted) {
  engine();
  return (int(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

// Without AVX-512, oneDNN reads operands where they stand. That is slow where A is transposed and
// the sum long (512×128×768: 64 GFLOP/s a core, OpenBLAS 91), and where rows are a multiple of 4 KB
// apart (256×3072×768: 84 on two cores, OpenBLAS 142); elsewhere oneDNN is faster by a tenth.
// oneDNN 3.7 must not compute a single column of a wider C, which it stores as if it were dense.
bool suits_onednn(const Block& block) {
  if (block.n == 1 && block.row_c > 1) return false;
  static const bool has_avx512 = processor_has(dnnl_cpu_isa_avx512_core);
  constexpr std::int64_t page = 1024;
  return has_avx512 || (block.transpose_a ? block.k <= 256 && block.row_a % page != 0
                                          : block.row_a % page != 0 && block.row_b % page != 0);
}

// False where oneDNN is not to be used for such a block. Primitives are cached per thread: the
// memory objects inside them are not shared.
template <class In>
bool multiply_onednn(const Block& block, const In* a, const In* b, float* c) {
  if (!use_onednn || !suits_onednn(block)) return false;
  thread_local std::map<Block, std::optional<CachedProduct>> cache;
  thread_local dnnl::stream stream(engine());
  auto found = cache.find(block);
  if (found == cache.end()) found = cache.emplace(block, make_product(block)).first;
  std::optional<CachedProduct>& cached = found->second;
  if (!cached) return false;
  cached->a.set_data_handle(const_cast<In*>(a));
  cached->b.set_data_handle(const_cast<In*>(b));
  cached->c.set_data_handle(c);
  cached->product.execute(stream, cached->arguments);
  stream.wait();
  return true;
}

#endif

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
#ifdef TAPESTRY_ONEDNN
  if constexpr (std::is_same_v<T, float>)
    if (multiply_onednn(block, a, b, c)) return;
#endif
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
#ifdef TAPESTRY_ONEDNN
  {
    const OneThread one_thread;
    block.bfloat16 = true;
    if (multiply_onednn(block, a, b, c)) return;
    block.bfloat16 = false;
  }
#endif
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
void run_batch(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  const Cut cut(matmul);
  // Small products of a large batch share a piece.
  const double flops = std::max(1.0, flops_of(matmul) / cut.pieces);
  const std::int64_t grain = std::max(1.0, 4e6 / flops);
  const std::int64_t blocks = std::ssize(batch) * cut.pieces;
  parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_block<In, T>(matmul, batch[i / cut.pieces], cut, i % cut.pieces);
  });
}

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
  if (precision == MatmulPrecision::bfloat16 && matmul.dtype == DType::float32 && matmul.m > 1) {
    if (has_bfloat16_products())
      run_batch<BFloat16, float>(matmul, RoundedOperands<BFloat16>(matmul, batch).batch());
    else
      run_batch<float, float>(matmul, RoundedOperands<float>(matmul, batch).batch());
    return;
  }
  dispatch(matmul.dtype, [&]<class T>() { run_batch<T, T>(matmul, batch); });
}

void set_matmul_precision(MatmulPrecision wanted) { precision = wanted; }

bool has_bfloat16_products() {
#ifdef TAPESTRY_ONEDNN
  static const bool has = processor_has(dnnl_cpu_isa_avx512_core_bf16);
  return has;
#else
  return false;
#endif
}

#ifdef TAPESTRY_ONEDNN
// The best instructions that oneDNN uses here; in a library of level v4, newer ones than v4 has.
const char* onednn_instructions() {
  constexpr std::pair<dnnl_cpu_isa_t, const char*> known[] = {
      {dnnl_cpu_isa_avx512_core_amx, "AMX"},
      {dnnl_cpu_isa_avx512_core_bf16, "AVX512-BF16"},
      {dnnl_cpu_isa_avx512_core, "AVX-512"},
      {dnnl_cpu_isa_avx2, "AVX2"},
      {dnnl_cpu_isa_sse41, "SSE4.1"}};
  for (const auto& [isa, name] : known)
    if (processor_has(isa)) return name;
  return "reference";
}
#endif

std::string matrix_engine_names() {
  const std::string configuration = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH …"
  const std::string blas = configuration.substr(0, configuration.find(' ', sizeof("OpenBLAS")));
  std::string names = fmt::format("{} ({})", blas, openblas_get_corename());
#ifdef TAPESTRY_ONEDNN
  const dnnl_version_t* version = dnnl_version();
  names = fmt::format("oneDNN {}.{}.{} ({}), {}", version->major, version->minor, version->patch,
                      onednn_instructions(), names);
#endif
  return names;
}

void set_use_onednn([[maybe_unused]] bool use) {
#ifdef TAPESTRY_ONEDNN
  use_onednn = use;
#endif
}

}  // namespace tapestry
