#include "autograd/kernels/direct_convolution.hpp"

#include <algorithm>

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/rows.hpp"

namespace tapestry {
namespace {

#if defined(__AVX512F__)
constexpr int runs_at_once = 4;  // 6 sums of each in 32 registers
constexpr int channels_at_once = 6;
#else
constexpr int runs_at_once = 2;
constexpr int channels_at_once = 4;
#endif
constexpr int weights_at_once = channels_at_once - 1;

// Images with zeros around them, in the memory of one thread.
template <class T>
class PaddedImage {
 public:
  explicit PaddedImage(const DirectConvolution& g)
      : g_(g),
        width_(g.W + 2 * g.padding),
        height_(g.H + 2 * g.padding),
        size_(g.C * height_ * width_ + simd_width<T>),
        memory_(allocate_workspace(sizeof(T) * size_)) {
    std::fill_n(values(), size_, T(0));
  }
  T* values() { return reinterpret_cast<T*>(memory_.get()); }
  std::int64_t width() const { return width_; }

  void read(const T* image) {
    for (std::int64_t c = 0; c < g_.C; ++c)
      for (std::int64_t row = 0; row < g_.H; ++row)
        std::copy_n(image + (c * g_.H + row) * g_.W, g_.W,
                    values() + (c * height_ + row + g_.padding) * width_ + g_.padding);
  }
  // Returns the first pixel of row p of the patches at row i of positions.
  const T* row(std::int64_t c, std::int64_t i, std::int64_t p) {
    return values() + (c * height_ + i + p) * width_;
  }

 private:
  const DirectConvolution& g_;
  std::int64_t width_, height_, size_;
  std::shared_ptr<std::byte[]> memory_;
};

// Up to simd_width<T> positions of a row.
struct PositionRun {
  std::int64_t row, column, count;
};

template <class T>
std::vector<PositionRun> runs_of(const DirectConvolution& g) {
  std::vector<PositionRun> runs;
  for (std::int64_t i = 0; i < g.h; ++i)
    for (std::int64_t j = 0; j < g.w; j += simd_width<T>)
      runs.push_back({i, j, std::min(simd_width<T>, g.w - j)});
  return runs;
}

// Calls fn(integral constant n, first) for tiles of at most `most` that divide `count` evenly.
template <int most, class Fn>
void for_each_tile(std::int64_t count, Fn fn) {
  const auto call = [&]<int n>(auto self, std::integral_constant<int, n>, std::int64_t size,
                               std::int64_t first) {
    if (size == n) return fn(std::integral_constant<int, n>(), first);
    if constexpr (n > 1) self(self, std::integral_constant<int, n - 1>(), size, first);
  };
  const std::int64_t tiles = (count + most - 1) / most;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t first = count * tile / tiles, last = count * (tile + 1) / tiles;
    call(call, std::integral_constant<int, most>(), last - first, first);
  }
}

}  // namespace

void direct_features(const DirectConvolution& g, const Array& images, const Array& weight,
                     const Array& bias, Array& features) {
  dispatch(images.dtype(), [&]<class T>() {
    const T *x = images.values<T>().data(), *weights = weight.values<T>().data();
    const T* biases = bias.empty() ? nullptr : bias.values<T>().data();
    T* y = features.mutable_values<T>().data();
    const std::vector<PositionRun> runs = runs_of<T>(g);
    parallel_for(g.B, 1, [&](std::int64_t begin, std::int64_t end) {
      PaddedImage<T> image(g);
      for (std::int64_t b = begin; b < end; ++b) {
        image.read(x + b * g.C * g.H * g.W);
        for_each_tile<channels_at_once>(
            g.O, [&]<int n>(std::integral_constant<int, n>, std::int64_t o) {
              for (std::size_t first = 0; first < runs.size(); first += runs_at_once) {
                const T* pixels[runs_at_once];
                Simd<T> sums[n][runs_at_once];
                const auto run = [&](int r) -> const PositionRun& {
                  return runs[std::min(first + r, runs.size() - 1)];
                };
#pragma GCC unroll 8
                for (int r = 0; r < runs_at_once; ++r) {
                  pixels[r] = image.row(0, run(r).row, 0) + run(r).column;
#pragma GCC unroll 8
                  for (int i = 0; i < n; ++i) sums[i][r] = Simd<T>(biases ? biases[o + i] : T(0));
                }
                const T* w = weights + o * g.patch();
                for (std::int64_t c = 0; c < g.C; ++c)
                  for (std::int64_t p = 0; p < g.K; ++p) {
                    const std::int64_t offset = image.row(c, 0, p) - image.row(0, 0, 0);
                    for (std::int64_t q = 0; q < g.K; ++q, ++w) {
                      Simd<T> v[runs_at_once];
#pragma GCC unroll 8
                      for (int r = 0; r < runs_at_once; ++r)
                        v[r] = Simd<T>::load_unaligned(pixels[r] + offset + q);
#pragma GCC unroll 8
                      for (int i = 0; i < n; ++i) {
                        const Simd<T> factor(w[i * g.patch()]);
#pragma GCC unroll 8
                        for (int r = 0; r < runs_at_once; ++r)
                          sums[i][r] = fma(factor, v[r], sums[i][r]);
                      }
                    }
                  }
#pragma GCC unroll 8
                for (int i = 0; i < n; ++i)
#pragma GCC unroll 8
                  for (int r = 0; r < runs_at_once; ++r) {
                    const auto [row, column, count] = run(r);
                    T* to = y + (((b * g.O + o + i) * g.h) + row) * g.w + column;
                    count == simd_width<T> ? sums[i][r].store_unaligned(to)
                                           : store_partial(sums[i][r], to, count);
                  }
              }
            });
      }
    });
  });
}

void direct_weight(const DirectConvolution& g, const Array& images, const Array& features,
                   std::int64_t length, Array& sums) {
  dispatch(images.dtype(), [&]<class T>() {
    const T *x = images.values<T>().data(), *dy = features.values<T>().data();
    T* weights = sums.mutable_values<T>().data();
    const std::vector<PositionRun> runs = runs_of<T>(g);
    parallel_for(g.B, length, [&](std::int64_t begin, std::int64_t end) {
      std::vector<PaddedImage<T>> padded;
      for (std::int64_t b = begin; b < end; ++b)
        padded.emplace_back(g).read(x + b * g.C * g.H * g.W);
      T* weight = weights + begin / length * g.O * g.patch();
      for (std::int64_t c = 0; c < g.C; ++c)
        for (std::int64_t p = 0; p < g.K; ++p)
          for_each_tile<channels_at_once - 1>(
              g.O, [&]<int n>(std::integral_constant<int, n>, std::int64_t o) {
                for_each_tile<weights_at_once>(
                    g.K, [&]<int m>(std::integral_constant<int, m>, std::int64_t q) {
                      Simd<T> total[n][m];
#pragma GCC unroll 8
                      for (int i = 0; i < n; ++i)
#pragma GCC unroll 8
                        for (int k = 0; k < m; ++k) total[i][k] = Simd<T>(T(0));
                      for (std::int64_t b = begin; b < end; ++b)
                        for (const auto& [row, column, count] : runs) {
                          const T* pixels = padded[b - begin].row(c, row, p) + column + q;
                          const T* gradients = dy + ((b * g.O + o) * g.h + row) * g.w + column;
                          Simd<T> v[n];
#pragma GCC unroll 8
                          for (int i = 0; i < n; ++i)
                            v[i] = count == simd_width<T>
                                       ? Simd<T>::load_unaligned(gradients + i * g.h * g.w)
                                       : load_partial(gradients + i * g.h * g.w, count);
#pragma GCC unroll 8
                          for (int k = 0; k < m; ++k) {
                            const Simd<T> pixel = Simd<T>::load_unaligned(pixels + k);
#pragma GCC unroll 8
                            for (int i = 0; i < n; ++i) total[i][k] = fma(v[i], pixel, total[i][k]);
                          }
                        }
#pragma GCC unroll 8
                      for (int i = 0; i < n; ++i)
#pragma GCC unroll 8
                        for (int k = 0; k < m; ++k)
                          weight[(o + i) * g.patch() + (c * g.K + p) * g.K + q + k] =
                              sum_lanes<T>(total[i][k]);
                    });
              });
    });
  });
}

}  // namespace tapestry
