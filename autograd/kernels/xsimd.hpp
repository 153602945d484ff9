#pragma once

// xsimd for the registers of the instruction level, with corrections of version 8, which Debian 12
// has.

// The intrinsics are included before xsimd includes them, with two warnings off: some of them start
// from an undefined operand, which GCC 12 reports wherever they are inlined (GCC bug 105593).
#ifdef __x86_64__
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

// Without optimization GCC defines these two as macros, whose casts do not accept the batches of
// xsimd 8.
#if defined(__AVX512BW__) && !defined(__OPTIMIZE__) && defined(_mm512_mask_blend_epi8)
#undef _mm512_mask_blend_epi8
#undef _mm512_mask_blend_epi16
inline __m512i _mm512_mask_blend_epi8(__mmask64 mask, __m512i a, __m512i b) {
  return _mm512_mask_mov_epi8(a, mask, b);
}
inline __m512i _mm512_mask_blend_epi16(__mmask32 mask, __m512i a, __m512i b) {
  return _mm512_mask_mov_epi16(a, mask, b);
}
#endif

#include <xsimd/xsimd.hpp>

// On AVX-512, fma of xsimd 8 rounds the product before it adds, also in its own exp and tanh.
// Overload resolution prefers these functions to its template.
#if defined(__AVX512F__) && XSIMD_VERSION_MAJOR < 10
namespace xsimd {
#define TAPESTRY_FUSED(name, intrinsic)                                     \
  inline batch<float> name(const batch<float>& x, const batch<float>& y,    \
                           const batch<float>& z) noexcept {                \
    return _mm512_##intrinsic##_ps(x, y, z);                                \
  }                                                                         \
  inline batch<double> name(const batch<double>& x, const batch<double>& y, \
                            const batch<double>& z) noexcept {              \
    return _mm512_##intrinsic##_pd(x, y, z);                                \
  }
TAPESTRY_FUSED(fma, fmadd)
TAPESTRY_FUSED(fms, fmsub)
TAPESTRY_FUSED(fnma, fnmadd)
TAPESTRY_FUSED(fnms, fnmsub)
#undef TAPESTRY_FUSED
}  // namespace xsimd
#endif

// On 64-bit Arm, xsimd 8 divides and takes roots by two refinements of an estimate: √∞ becomes NaN.
#if defined(__aarch64__) && XSIMD_VERSION_MAJOR < 10
namespace xsimd::kernel {
template <>
inline batch<float, neon64> div<neon64>(const batch<float, neon64>& x,
                                        const batch<float, neon64>& y,
                                        requires_arch<neon>) noexcept {
  return vdivq_f32(x, y);
}
template <>
inline batch<float, neon64> sqrt<neon64>(const batch<float, neon64>& x,
                                         requires_arch<neon>) noexcept {
  return vsqrtq_f32(x);
}
}  // namespace xsimd::kernel
#endif
