#include "autograd/kernels/onednn.hpp"

#ifdef TAPESTRY_ONEDNN
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <dnnl.hpp>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tapestry::onednn {
namespace {

bool in_use = true;

struct CachedProduct {
  dnnl::matmul product;
  dnnl::memory a, b, c;
  std::unordered_map<int, dnnl::memory> arguments;
};

constexpr int most_primitives = 1024;       // that oneDNN keeps for all threads
constexpr std::size_t most_products = 256;  // that a thread keeps

// oneDNN's engine. Before it is made, oneDNN is told to use no newer instructions than those that
// this library is compiled for.
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

// A thread's products, of which those used last are kept. A product of 50 KB is made in 5 µs where
// oneDNN, which keeps primitives for all threads, has it still, else in 150 to 1000 µs.
class Products {
 public:
  std::optional<CachedProduct>& of(const Block& block) {
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
  using ByUse = std::list<std::pair<Block, std::optional<CachedProduct>>>;  // the last one first

  void forget_oldest() {
    places_.erase(by_use_.back().first);
    by_use_.pop_back();
  }

  ByUse by_use_;
  std::map<Block, ByUse::iterator> places_;
};

// Where oneDNN compiles code for each shape, it would compile at each step that has another number
// of rows. So it meets multiples of this alone, 64 to every power of two, and a rest: with equal
// bits.
std::int64_t step_of_rows(std::int64_t rows) {
  return std::max<std::int64_t>(16, std::bit_floor<std::uint64_t>(rows) / 64);
}

bool compiles_each_shape() {
  static const bool compiles = processor_has(dnnl_cpu_isa_avx512_core);
  return compiles;
}

// False where oneDNN is not to be used for such a block. Products are cached per thread: the memory
// objects inside them are not shared.
template <class In>
bool multiply_block(const Block& block, const In* a, const In* b, float* c) {
  if (!in_use || !suits_onednn(block)) return false;
  const std::int64_t rest = block.m % step_of_rows(block.m);
  const bool cuts = !block.transpose_a && !block.bfloat16 && compiles_each_shape();
  if (cuts && rest != 0 && rest != block.m) {
    Block part = block;
    part.m = block.m - rest;
    if (!multiply_block(part, a, b, c)) return false;
    a += part.m * block.row_a, c += part.m * block.row_c;
    part.m = rest;
    return multiply_block(part, a, b, c);
  }
  thread_local Products products;
  thread_local dnnl::stream stream(engine());
  std::optional<CachedProduct>& cached = products.of(block);
  if (!cached) return false;
  cached->a.set_data_handle(const_cast<In*>(a));
  cached->b.set_data_handle(const_cast<In*>(b));
  cached->c.set_data_handle(c);
  cached->product.execute(stream, cached->arguments);
  stream.wait();
  return true;
}

// The best instructions that oneDNN uses here; in a library of level v4, newer ones than v4 has.
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

}  // namespace

bool multiply(const Block& block, const float* a, const float* b, float* c) {
  return multiply_block(block, a, b, c);
}

bool multiply(const Block& block, const BFloat16* a, const BFloat16* b, float* c) {
  return multiply_block(block, a, b, c);
}

// Rows of zeros behind both operands leave the bits as they are.
std::int64_t round_up_terms(std::int64_t k) {
  const std::int64_t step = step_of_rows(k);
  return in_use && compiles_each_shape() && k > step ? (k + step - 1) / step * step : k;
}

void set_use(bool use) { in_use = use; }

bool has_bfloat16_products() {
  static const bool has = processor_has(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

std::string name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", version->major, version->minor, version->patch,
                     instructions());
}

}  // namespace tapestry::onednn

#else

namespace tapestry::onednn {

bool multiply(const Block&, const float*, const float*, float*) { return false; }
bool multiply(const Block&, const BFloat16*, const BFloat16*, float*) { return false; }
std::int64_t round_up_terms(std::int64_t k) { return k; }
void set_use(bool) {}
bool has_bfloat16_products() { return false; }
std::string name() { return {}; }

}  // namespace tapestry::onednn

#endif
