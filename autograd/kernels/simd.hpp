#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "autograd/kernels/xsimd.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

// A vector register of scalars. The errors of xsimd's exp, log, tanh, log1p and expm1 are at most 3
// units in the last place, those of erf 3 in float32 and 70 in float64.
template <class T>
using Simd = xsimd::batch<T>;

template <class T>
inline constexpr std::int64_t simd_width = Simd<T>::size;

// Returns the product of the low halves of x and y in each lane, which xsimd lacks.
using Lanes64 = xsimd::batch<std::uint64_t>;
inline Lanes64 multiply_low_halves(const Lanes64& x, const Lanes64& y) {
#if defined(__AVX512F__)
  return _mm512_mul_epu32(x, y);
#elif defined(__AVX2__)
  return _mm256_mul_epu32(x, y);
#elif defined(__SSE2__)
  return _mm_mul_epu32(x, y);
#elif defined(__aarch64__)
  return vmull_u32(vmovn_u64(x), vmovn_u64(y));
#else
  const Lanes64 half(std::uint64_t{0xFFFFFFFF});
  return (x & half) * (y & half);
#endif
}
inline std::uint64_t multiply_low_halves(std::uint64_t x, std::uint64_t y) {
  return (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF);
}

// Returns the sum of the lanes of a batch.
template <class T>
T sum_lanes(const Simd<T>& batch) {
#if XSIMD_VERSION_MAJOR < 10
  return xsimd::hadd(batch);
#else
  return xsimd::reduce_add(batch);
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// Returns a mask of the first `count` lanes of 32 bits.
inline __m256i first_lanes(std::int64_t count) {
  alignas(64) static constexpr std::int32_t ones_and_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones_and_zeros + 8 - count));
}
#endif

// Returns the first `count` < simd_width<T> elements; the other lanes are 0.
template <class T>
Simd<T> load_partial(const T* from, std::int64_t count) {
#if defined(__AVX512F__)
  const unsigned lanes = (1u << count) - 1;
  if constexpr (std::is_same_v<T, float>)
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes), from);
  else
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes), from);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<T, float>)
    return _mm256_maskload_ps(from, first_lanes(count));
  else
    return _mm256_maskload_pd(from, first_lanes(2 * count));
#else
  alignas(64) T lanes[simd_width<T>] = {};
  std::copy_n(from, count, lanes);
  return Simd<T>::load_aligned(lanes);
#endif
}

// Returns simd_width<float> integers of a byte as numbers.
inline Simd<float> load_int8(const std::int8_t* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
  alignas(64) float lanes[simd_width<float>];
  std::copy_n(from, simd_width<float>, lanes);
  return Simd<float>::load_aligned(lanes);
#endif
}

template <class T>
void store_partial(const Simd<T>& batch, T* to, std::int64_t count) {
#if defined(__AVX512F__)
  const unsigned lanes = (1u << count) - 1;
  if constexpr (std::is_same_v<T, float>)
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(lanes), batch);
  else
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>(lanes), batch);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<T, float>)
    _mm256_maskstore_ps(to, first_lanes(count), batch);
  else
    _mm256_maskstore_pd(to, first_lanes(2 * count), batch);
#else
  alignas(64) T lanes[simd_width<T>];
  batch.store_aligned(lanes);
  std::copy_n(lanes, count, to);
#endif
}

// Computes out[i] = f(in[0][i], in[1][i], …) for i in [0, n): map_span(n, {x, y}, out, f). The last
// elements use the same vector arithmetic as the others, so that a value does not depend on its
// position. `out` may be one of the inputs.
template <class T, std::size_t inputs, class F>
void map_span(std::int64_t n, const T* const (&in)[inputs], T* out, F f) {
  const auto run = [=](auto... x) {
    std::int64_t i = 0;
    for (; i + simd_width<T> <= n; i += simd_width<T>)
      f(Simd<T>::load_unaligned(x + i)...).store_unaligned(out + i);
    if (i < n) store_partial<T>(f(load_partial(x + i, n - i)...), out + i, n - i);
  };
  std::apply(run, std::to_array(in));
}

// Computes map_span() for arrays, on all threads.
template <class T, std::size_t inputs, class F>
void map(std::int64_t n, const T* const (&in)[inputs], T* out, F f) {
  constexpr std::int64_t grain = 8192;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const T* from[inputs];
    std::transform(in, in + inputs, from, [begin](const T* x) { return x + begin; });
    map_span(end - begin, from, out + begin, f);
  });
}

// Returns fold(… fold(fold(start, x[0]), x[1]) …) for each lane, where x[i] are the i-th registers
// of all inputs. `padding` fills the free lanes of the last elements and must not change the fold.
template <class T, std::size_t inputs, class Fold>
Simd<T> fold_span(std::int64_t n, const T* const (&in)[inputs], Simd<T> start, T padding,
                  Fold fold) {
  const auto run = [&](auto... x) {
    Simd<T> lanes = start;
    std::int64_t i = 0;
    for (; i + simd_width<T> <= n; i += simd_width<T>)
      lanes = fold(lanes, Simd<T>::load_unaligned(x + i)...);
    if (i == n) return lanes;
    const auto load_padded = [&](const T* from) {
      if (padding == T(0)) return load_partial(from, n - i);
      alignas(64) T values[simd_width<T>];
      std::fill_n(values, simd_width<T>, padding);
      std::copy_n(from, n - i, values);
      return Simd<T>::load_aligned(values);
    };
    return fold(lanes, load_padded(x + i)...);
  };
  return std::apply(run, std::to_array(in));
}

// The largest number of terms that are added sequentially, which loses a few units in the last
// place. Longer sums are the sums of their halves.
inline constexpr std::int64_t longest_run = 512;

// The largest number of elements of a span that are added sequentially, one sum in each lane.
template <class T>
inline constexpr std::int64_t run_of_span = longest_run* simd_width<T>;

template <class T>
std::int64_t first_half(std::int64_t n) {
  return (n / run_of_span<T> + 1) / 2 * run_of_span<T>;
}

template <class T, std::size_t inputs, class Add>
Simd<T> sum_halves(std::int64_t n, const T* const (&in)[inputs], T padding, Add add);

// Returns the lanes of a sum, where add(sum, x…) returns `sum` plus a term.
template <class T, std::size_t inputs, class Add>
[[gnu::always_inline]] inline Simd<T> sum_terms(std::int64_t n, const T* const (&in)[inputs],
                                                T padding, Add add) {
  if (n <= run_of_span<T>) return fold_span(n, in, Simd<T>(T(0)), padding, add);
  return sum_halves(n, in, padding, add);
}

template <class T, std::size_t inputs, class Add>
[[gnu::noinline]] Simd<T> sum_halves(std::int64_t n, const T* const (&in)[inputs], T padding,
                                     Add add) {
  const std::int64_t half = first_half<T>(n);
  const T* rest[inputs];
  std::transform(in, in + inputs, rest, [half](const T* x) { return x + half; });
  return sum_terms(half, in, padding, add) + sum_terms(n - half, rest, padding, add);
}

template <class T>
T sum_span(std::int64_t n, const T* in) {
  const auto add = [](auto sum, auto x) { return sum + x; };
  return sum_lanes(sum_terms(n, {in}, T(0), add));
}

template <class T>
T max_span(std::int64_t n, const T* in) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const auto larger = [](auto so_far, auto x) { return xsimd::max(so_far, x); };
  const Simd<T> best = fold_span(n, {in}, Simd<T>(lowest), lowest, larger);
  alignas(64) T lanes[simd_width<T>];
  best.store_aligned(lanes);
  return *std::max_element(lanes, lanes + simd_width<T>);
}

// Squares: arrays of as many vector registers as each has lanes.

template <class T>
using Lanes [[gnu::vector_size(sizeof(Simd<T>))]] = T;

// Returns alternating blocks of lanes of the lower or the upper halves of each group of lanes of
// two registers.
template <class T, int block, int group, bool upper, std::size_t... i>
Lanes<T> interleave(Lanes<T> a, Lanes<T> b, std::index_sequence<i...>) {
  constexpr auto source = [](int lane) {
    const int first = lane / group * group + (upper ? group / 2 : 0), other = lane / block % 2;
    return first + lane % group / (2 * block) * block + lane % block + other * simd_width<T>;
  };
  return __builtin_shufflevector(a, b, source(int(i))...);
}

// Transposes the square of every group of lanes in `count` registers, `distance` apart, whose
// elements are blocks of lanes: interleaving their two halves log2(count) times turns the bits of
// an element's row into those of its place in the group.
template <class T, int block, int count>
[[gnu::always_inline]] inline void transpose_groups(Lanes<T>* square, int distance) {
  constexpr auto lanes = std::make_index_sequence<simd_width<T>>();
#pragma GCC unroll 4
  for (int step = 1; step < count; step *= 2) {
    Lanes<T> next[count];
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) {
      const Lanes<T> a = square[i * distance], b = square[(i + count / 2) * distance];
      next[2 * i] = interleave<T, block, block * count, false>(a, b, lanes);
      next[2 * i + 1] = interleave<T, block, block * count, true>(a, b, lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) square[i * distance] = next[i];
  }
}

// Transposes a square: the groups of 128 bits, within which AVX2 interleaves by one instruction,
// then the matrix of these groups.
template <class T>
[[gnu::always_inline]] inline void transpose(Lanes<T> (&square)[simd_width<T>]) {
  constexpr int width = simd_width<T>, group = 16 / sizeof(T);
#pragma GCC unroll 8
  for (int i = 0; i < width; i += group) transpose_groups<T, 1, group>(square + i, 1);
#pragma GCC unroll 4
  for (int i = 0; i < group; ++i) transpose_groups<T, group, width / group>(square + i, group);
}

// Returns the sum of register i in lane i. Overwrites the square.
template <class T>
Simd<T> sum_each(Lanes<T> (&square)[simd_width<T>]) {
  constexpr int width = simd_width<T>;
  constexpr auto lanes = std::make_index_sequence<width>();
  for (int half = width / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      square[i] = interleave<T, 1, width, false>(square[i], square[i + half], lanes) +
                  interleave<T, 1, width, true>(square[i], square[i + half], lanes);
  alignas(64) T sums[width];
  std::memcpy(sums, &square[0], sizeof(sums));
  return Simd<T>::load_aligned(sums);
}

}  // namespace tapestry
