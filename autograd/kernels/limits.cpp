#include "autograd/kernels/limits.hpp"

#include "autograd/kernels/register_tile.hpp"

namespace tapestry {
namespace {

// Number of independent sums. Two multiply-add units with a latency of 4 cycles need 8; the four of
// a large Arm core need 16. A machine with 16 registers has space for 12 and the factor.
constexpr int accumulators = vector_registers == 32 ? 16 : 12;
constexpr std::int64_t floats = accumulators * simd_width<float>;
static_assert(limit_columns % floats == 0);

void turn_signs_of_floats(float* x, std::int64_t times) {
  const Simd<float> factor(-2.0f);
  Simd<float> values[accumulators];
  for (int i = 0; i < accumulators; ++i)
    values[i] = Simd<float>::load_unaligned(x + i * simd_width<float>);
  for (std::int64_t time = 0; time < times; ++time)
    for (Simd<float>& value : values) value = xsimd::fma(value, factor, value);
  for (int i = 0; i < accumulators; ++i) values[i].store_unaligned(x + i * simd_width<float>);
}

}  // namespace

void turn_signs(Array& x, std::int64_t times) {
  float* all = x.mutable_values<float>().data();
  const std::int64_t grain = std::max<std::int64_t>(1, 256 / std::max<std::int64_t>(1, times));
  parallel_for(x.dim(0), grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * limit_columns; at < end * limit_columns; at += floats)
      turn_signs_of_floats(all + at, times);
  });
}

}  // namespace tapestry
