#include <map>

#include "autograd/buffer_pool.hpp"
#include "autograd/float16.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "autograd/restore.hpp"

#ifdef TAPESTRY_ONEDNN
#include <fmt/core.h>
#include <omp.h>

#include <compare>
#include <dnnl.hpp>
#include <list>
#include <unordered_map>
#endif

namespace tapestry {
namespace {

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
    if (copy) return copy.get();  // another product of the batch uses it
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

#ifdef TAPESTRY_ONEDNN

constexpr int most_primitives = 1024;       // kept by oneDNN for all threads
constexpr std::size_t most_products = 256;  // kept by each thread

// Returns oneDNN's engine. oneDNN is limited to the instructions that this library is compiled for.
const dnnl::engine& engine() {
  static const dnnl::engine cpu = [] {
    dnnl::set_primitive_cache_capacity(most_primitives);
#if !defined(__AVX2__)
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
#elif !defined(__AVX512F__)
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
#endif
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

bool processor_has(dnnl_cpu_isa_t wanted) {
  engine();
  return (int(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

// The product of one block of C; row_a, row_b and row_c are the distances between stored rows.
struct Block {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t row_a, row_b, row_c;
  auto operator<=>(const Block&) const = default;
};

struct CachedProduct {
  dnnl::matmul product;
  dnnl::memory a, b, c;
  std::unordered_map<int, dnnl::memory> arguments;
};

CachedProduct make_product(const Block& block) {
  using dnnl::memory;
  const auto matrix = [](memory::data_type type, std::int64_t rows, std::int64_t columns,
                         std::int64_t row, bool transpose) {
    return memory::desc({rows, columns}, type,
                        transpose ? memory::dims{1, row} : memory::dims{row, 1});
  };
  const auto bfloat16 = memory::data_type::bf16;
  const auto a = matrix(bfloat16, block.m, block.k, block.row_a, block.transpose_a);
  const auto b = matrix(bfloat16, block.k, block.n, block.row_b, block.transpose_b);
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
}

// The most recently used products of a thread. A product of 50 KB is made in 5 µs if oneDNN, which
// keeps primitives for all threads, has it, else in 150 to 1000 µs.
class Products {
 public:
  CachedProduct& of(const Block& block) {
    if (const auto found = places_.find(block); found != places_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second);
    } else {
      if (by_use_.size() == most_products) forget_oldest();
      by_use_.emplace_front(block, make_product(block));
      places_.emplace(block, by_use_.begin());
    }
    return by_use_.front().second;
  }

 private:
  using ByUse = std::list<std::pair<Block, CachedProduct>>;  // the most recent first

  void forget_oldest() {
    places_.erase(by_use_.back().first);
    by_use_.pop_back();
  }

  ByUse by_use_;
  std::map<Block, ByUse::iterator> places_;
};

// Computes a block. Products are cached for each thread, because their memory objects are not
// shared.
void multiply_block(const Block& block, const BFloat16* a, const BFloat16* b, float* c) {
  // oneDNN asks OpenMP for the number of threads.
  const RestoreSetting one_thread(omp_set_num_threads, 1, omp_get_max_threads());
  thread_local Products products;
  thread_local dnnl::stream stream(engine());
  CachedProduct& cached = products.of(block);
  cached.a.set_data_handle(const_cast<BFloat16*>(a));
  cached.b.set_data_handle(const_cast<BFloat16*>(b));
  cached.c.set_data_handle(c);
  cached.product.execute(stream, cached.arguments);
  stream.wait();
}

// The division of C along its longer side into at most 4 pieces, each large enough to wake a
// thread. It depends on the size of the product only. Each piece packs the whole other operand.
struct Cut {
  bool rows;
  std::int64_t extent, piece, pieces = 1;

  explicit Cut(const Matmul& matmul)
      : rows(matmul.m >= matmul.n), extent(rows ? matmul.m : matmul.n) {
    constexpr std::int64_t least_extent = 16;
    constexpr double least_flops = 4e6;
    const double flops = 2.0 * matmul.m * matmul.n * matmul.k;
    while (pieces < 4 && extent / (2 * pieces) >= least_extent &&
           flops / (2 * pieces) >= least_flops)
      pieces *= 2;
    piece = ((extent + pieces - 1) / pieces + least_extent - 1) / least_extent * least_extent;
    pieces = (extent + piece - 1) / piece;
  }
};

// Writes the bias to the rows of C, so that the product adds to it in the cache.
void write_bias(const Block& block, const float* bias, float* c) {
  for (std::int64_t row = 0; row < block.m; ++row)
    std::copy_n(bias, block.n, c + row * block.row_c);
}

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
  const auto* a = reinterpret_cast<const BFloat16*>(operands.a);
  const auto* b = reinterpret_cast<const BFloat16*>(operands.b);
  const auto* bias = reinterpret_cast<const float*>(operands.bias);
  auto* c = reinterpret_cast<float*>(operands.c);
  if (cut.rows) {
    a += begin * (matmul.transpose_a ? 1 : matmul.k);
    c += begin * matmul.n;
  } else {
    b += begin * (matmul.transpose_b ? matmul.k : 1);
    c += begin;
    if (bias) bias += begin;
  }
  if (bias) write_bias(block, bias, c);
  multiply_block(block, a, b, c);
}

void multiply_by_onednn(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  const Cut cut(matmul);
  const double flops = 2.0 * matmul.m * matmul.n * matmul.k / cut.pieces;
  const std::int64_t grain = std::max(1.0, 4e6 / flops);  // small products share a piece
  parallel_for(std::ssize(batch) * cut.pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_block(matmul, batch[i / cut.pieces], cut, i % cut.pieces);
  });
}

// Returns the best instruction set that oneDNN uses on this processor. In a library of level v4 it
// may include instructions that v4 lacks.
const char* instructions() {
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

#else

void multiply_by_onednn(const Matmul&, const std::vector<MatmulOperands>&) {}

#endif

}  // namespace

#ifdef TAPESTRY_ONEDNN

bool has_bfloat16_products() {
  static const bool has = processor_has(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

std::string onednn_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", version->major, version->minor, version->patch,
                     instructions());
}

#else

bool has_bfloat16_products() { return false; }
std::string onednn_name() { return {}; }

#endif

void multiply_rounded(const Matmul& matmul, const std::vector<MatmulOperands>& batch) {
  if (has_bfloat16_products())
    return multiply_by_onednn(matmul, RoundedOperands<BFloat16>(matmul, batch).batch());
  const RoundedOperands<float> rounded(matmul, batch);
  for (const MatmulOperands& operands : rounded.batch()) multiply_packed(matmul, operands);
}

}  // namespace tapestry
