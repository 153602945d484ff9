#include "autograd/ops/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "autograd/branches.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/convolution.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// The windows of the planes (H, W) of images, in rows and columns (h, w).
struct PoolWindows {
  std::int64_t planes, H, W, h, w, K, stride, padding;

  // Returns whether the windows are squares of 2 × 2 side by side, whose loops use vector
  // registers.
  bool are_pairs() const { return K == 2 && stride == 2 && padding == 0; }
  // Calls fn(row) for each row of pixels of the windows in row i.
  template <class Fn>
  void for_each_row_of(std::int64_t i, Fn fn) const {
    const std::int64_t top = i * stride - padding;
    for (std::int64_t row = std::max<std::int64_t>(0, top); row < std::min(H, top + K); ++row)
      fn(row);
  }
  // Calls fn(j, column) for each window and each of its columns in the image: all windows for the
  // first column, and so on.
  template <class Fn>
  void for_each_column(Fn fn) const {
    for (std::int64_t q = 0; q < K; ++q) {
      const std::int64_t shift = q - padding;
      const std::int64_t first = shift < 0 ? (stride - 1 - shift) / stride : 0;
      for (std::int64_t j = first; j < w && j * stride + shift < W; ++j) fn(j, j * stride + shift);
    }
  }
};

PoolWindows pool_windows(const char* op, const Tensor& x, const PoolOptions& options) {
  const auto [K, stride, padding] = options;
  check_floating(op, x);
  require(x.rank() == 4, "{}: x {}; expected (B, C, H, W)", op, x.shape());
  require(K >= 1 && stride >= 1 && padding >= 0 && 2 * padding <= K,
          "{}: kernel {}, stride {} and padding {}; expected kernel and stride >= 1, and padding "
          "from 0 to kernel / 2",
          op, K, stride, padding);
  const PoolWindows windows{.planes = x.dim(0) * x.dim(1),
                            .H = x.dim(2),
                            .W = x.dim(3),
                            .h = positions_along(x.dim(2), K, stride, padding),
                            .w = positions_along(x.dim(3), K, stride, padding),
                            .K = K,
                            .stride = stride,
                            .padding = padding};
  require(windows.h >= 1 && windows.w >= 1,
          "{}: x {} with padding {} is smaller than the kernel {}; use a smaller kernel", op,
          x.shape(), padding, K);
  return windows;
}

// Returns the elements 0, 2, …, or with `odd` 1, 3, …, of two registers.
template <class T, bool odd, std::size_t... i>
Simd<T> every_second(const Simd<T>& a, const Simd<T>& b, std::index_sequence<i...>) {
  return Simd<T>(
      __builtin_shufflevector(Lanes<T>(a.data), Lanes<T>(b.data), (2 * int(i) + odd)...));
}

// The pixels of a row, the left and the right one of each window of two columns.
template <class T>
struct PixelPairs {
  Simd<T> left, right;
};
template <class T>
inline constexpr auto lane_numbers = std::make_index_sequence<simd_width<T>>();

// Returns the pairs of the first `count` <= simd_width<T> windows; the other lanes are 0.
template <class T>
PixelPairs<T> load_pairs(const T* row, std::int64_t count) {
  constexpr std::int64_t lanes = simd_width<T>;
  const auto load = [](const T* from, std::int64_t n) {
    return n >= lanes ? Simd<T>::load_unaligned(from)
           : n > 0    ? load_partial(from, n)
                      : Simd<T>(T(0));
  };
  const Simd<T> a = load(row, 2 * count), b = load(row + lanes, 2 * count - lanes);
  return {every_second<T, false>(a, b, lane_numbers<T>),
          every_second<T, true>(a, b, lane_numbers<T>)};
}

template <class T>
void store_pairs(const PixelPairs<T>& pairs, T* row, std::int64_t count) {
  constexpr std::int64_t lanes = simd_width<T>;
  const auto store = [](const Lanes<T>& values, T* to, std::int64_t n) {
    if (n >= lanes)
      Simd<T>(values).store_unaligned(to);
    else if (n > 0)
      store_partial(Simd<T>(values), to, n);
  };
  const Lanes<T> left(pairs.left.data), right(pairs.right.data);
  store(interleave<T, 1, simd_width<T>, false>(left, right, lane_numbers<T>), row, 2 * count);
  store(interleave<T, 1, simd_width<T>, true>(left, right, lane_numbers<T>), row + lanes,
        2 * count - lanes);
}

template <class T>
Simd<T> load_first(const T* from, std::int64_t n) {
  return n >= simd_width<T> ? Simd<T>::load_unaligned(from) : load_partial(from, n);
}

// Calls fn(first, count) for runs of at most simd_width<T> of the windows of a row.
template <class T, class Fn>
void for_each_run(std::int64_t w, Fn fn) {
  for (std::int64_t j = 0; j < w; j += simd_width<T>) fn(j, std::min(simd_width<T>, w - j));
}

// Computes y (w) = finish(fold) of a row of pairs, from both of its rows of pixels (W). Everything
// stays in registers: a masked store before a load would delay the load.
template <class T, class Fold, class Finish>
void pool_pairs(const PoolWindows& windows, const T* pixels, T* y, Fold fold, Finish finish) {
  for_each_run<T>(windows.w, [&](std::int64_t j, std::int64_t n) {
    const PixelPairs<T> upper = load_pairs(pixels + 2 * j, n);
    const PixelPairs<T> lower = load_pairs(pixels + windows.W + 2 * j, n);
    const Simd<T> result =
        finish(fold(fold(upper.left, upper.right), fold(lower.left, lower.right)));
    n == simd_width<T> ? result.store_unaligned(y + j) : store_partial(result, y + j, n);
  });
}

// Returns finish(fold of the pixels of each window).
template <class Fold, class Finish>
Array pooled(const PoolWindows& windows, const Array& x, double start, Fold fold, Finish finish) {
  Array y({x.dim(0), x.dim(1), windows.h, windows.w}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(windows.planes, windows.H * windows.W, [=](std::int64_t plane) {
      std::vector<T> rows(windows.W);  // folded
      for (std::int64_t i = 0; i < windows.h; ++i) {
        T* result = out + (plane * windows.h + i) * windows.w;
        if (windows.are_pairs()) {
          pool_pairs(windows, in + (plane * windows.H + 2 * i) * windows.W, result, fold, finish);
          continue;
        }
        std::fill(rows.begin(), rows.end(), T(start));
        windows.for_each_row_of(i, [&](std::int64_t row) {
          map_span(windows.W, {rows.data(), in + (plane * windows.H + row) * windows.W},
                   rows.data(), fold);
        });
        std::fill_n(result, windows.w, T(start));
        windows.for_each_column([&](std::int64_t j, std::int64_t column) {
          result[j] = fold(result[j], rows[column]);
        });
        map_span(windows.w, {result}, result, finish);
      }
    });
  });
  return y;
}

// Returns the gradient of the pixels (B, C, H, W). add(y row, x row, dy, dx) adds the gradients dy
// (w) of a row of windows, which it may change, to one of its rows of pixels (W).
template <class Add>
Array unpooled(const PoolWindows& windows, const Array& gradient, double scale, Add add) {
  Array dx({gradient.dim(0), gradient.dim(1), windows.H, windows.W}, gradient.dtype());
  dispatch(dx.dtype(), [&]<class T>() {
    const T* dy = gradient.values<T>().data();
    T* out = dx.mutable_values<T>().data();
    for_each_row(windows.planes, windows.H * windows.W, [=, &windows](std::int64_t plane) {
      std::fill_n(out + plane * windows.H * windows.W, windows.H * windows.W, T(0));
      std::vector<T> gradients(windows.w);
      for (std::int64_t i = 0; i < windows.h; ++i) {
        const std::int64_t y_row = plane * windows.h + i;
        map_span(windows.w, {dy + y_row * windows.w}, gradients.data(),
                 [scale](auto v) { return v * T(scale); });
        windows.for_each_row_of(i, [&](std::int64_t row) {
          const std::int64_t x_row = plane * windows.H + row;
          add(y_row, x_row, gradients.data(), out + x_row * windows.W);
        });
      }
    });
  });
  return dx;
}

// Returns the larger of two numbers, the first if they are equal, or NaN if one is.
template <class X>
X larger_or_nan(const X& a, const X& b) {
  if constexpr (std::is_floating_point_v<X>)
    return ((b > a) | std::isnan(b)) ? b : a;
  else
    return select((b > a) | isnan(b), b, a);
}

// Adds the gradients (w) of a row of windows to the pixels x (W) of one of its rows that are the
// maxima (w), and sets those gradients to 0.
template <class T>
void give_to_maxima(const PoolWindows& windows, const T* x, const T* maxima, T* gradients, T* dx) {
  windows.for_each_column([=](std::int64_t j, std::int64_t column) {
    if (x[column] != maxima[j] && !std::isnan(x[column])) return;
    dx[column] += gradients[j];
    gradients[j] = 0;
  });
}

// Does the same as give_to_maxima() for a row of pairs and both of its rows of pixels (W), which it
// overwrites.
template <class T>
void give_to_maxima_of_pairs(const PoolWindows& windows, const T* x, const T* maxima,
                             const T* gradients, T* dx) {
  for_each_run<T>(windows.w, [=, W = windows.W](std::int64_t j, std::int64_t n) {
    const Simd<T> maximum = load_first(maxima + j, n), none(T(0));
    Simd<T> left = load_first(gradients + j, n);
    const auto take = [&](const Simd<T>& pixel) {
      const auto is_maximum = (pixel == maximum) | isnan(pixel);
      const Simd<T> taken = select(is_maximum, left, none);
      left = select(is_maximum, none, left);
      return taken;
    };
    for (const std::int64_t row : {std::int64_t{0}, W}) {
      const PixelPairs<T> pixels = load_pairs(x + row + 2 * j, n);
      const Simd<T> first = take(pixels.left), second = take(pixels.right);
      store_pairs<T>({first, second}, dx + row + 2 * j, n);
    }
  });
}

// Returns the gradient of the pixels x (B, C, H, W).
Array gradient_of_maxima(const PoolWindows& windows, const Array& x, const Array& maxima,
                         const Array& gradient) {
  if (!windows.are_pairs())
    return unpooled(windows, gradient, 1,
                    [&]<class T>(std::int64_t y_row, std::int64_t x_row, T* gradients, T* dx) {
                      give_to_maxima(windows, x.values<T>().data() + x_row * windows.W,
                                     maxima.values<T>().data() + y_row * windows.w, gradients, dx);
                    });
  Array dx(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.values<T>().data(), *largest = maxima.values<T>().data();
    const T* dy = gradient.values<T>().data();
    T* out = dx.mutable_values<T>().data();
    for_each_row(windows.planes, windows.H * windows.W, [=, &windows](std::int64_t plane) {
      const std::int64_t H = windows.H, W = windows.W, h = windows.h, w = windows.w;
      if (2 * h < H || 2 * w < W) std::fill_n(out + plane * H * W, H * W, T(0));
      for (std::int64_t i = 0; i < h; ++i) {
        const std::int64_t pixel = (plane * H + 2 * i) * W, window = (plane * h + i) * w;
        give_to_maxima_of_pairs(windows, in + pixel, largest + window, dy + window, out + pixel);
      }
    });
  });
  return dx;
}

// Returns the place of each window's maximum in its plane, (B, C, h, w) in x's dtype.
Array places_of_maxima(const PoolWindows& windows, const Array& x, const Shape& shape) {
  Array places(shape, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = places.mutable_values<T>().data();
    for (std::int64_t y_row = 0; y_row < windows.planes * windows.h; ++y_row) {
      const T* plane = in + y_row / windows.h * windows.H * windows.W;
      std::fill_n(out + y_row * windows.w, windows.w, T(-1));
      windows.for_each_row_of(y_row % windows.h, [&](std::int64_t row) {
        windows.for_each_column([&](std::int64_t j, std::int64_t column) {
          T& best = out[y_row * windows.w + j];
          const std::int64_t place = row * windows.W + column;
          if (best < 0 || plane[place] > plane[static_cast<std::int64_t>(best)]) best = T(place);
        });
      });
    }
  });
  return places;
}

// Returns the pixels at these places.
Array pixels_at(const PoolWindows& windows, const Array& x, const Array& places) {
  Array y(places.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    const auto at = places.values<T>();
    const auto out = y.mutable_values<T>();
    for (std::int64_t i = 0; i < y.size(); ++i)
      out[i] = in[i / (windows.h * windows.w) * windows.H * windows.W +
                  static_cast<std::int64_t>(at[i])];
  });
  return y;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const PoolOptions& options) {
  const PoolWindows windows = pool_windows("max_pool2d", x, options);
  const Array maxima = pooled(
      windows, x.value(), -std::numeric_limits<double>::infinity(),
      [](auto a, auto b) { return larger_or_nan(a, b); }, [](auto v) { return v; });
  const Tensor y =
      record("max_pool2d", maxima, {x},
             [windows, x = x.value(), maxima](const Array& gradient, InputGradients& into) {
               into.add(0, gradient_of_maxima(windows, x, maxima, gradient));
             });
  return in_held_branches(
      y, [&] { return places_of_maxima(windows, x.value(), y.shape()); },
      [&](const Array& places) { return pixels_at(windows, x.value(), places); });
}

Tensor average_pool2d(const Tensor& x, const PoolOptions& options) {
  const PoolWindows windows = pool_windows("average_pool2d", x, options);
  const double scale = 1 / static_cast<double>(windows.K * windows.K);
  const Array y = pooled(
      windows, x.value(), 0, [](auto a, auto b) { return a + b; },
      [scale]<class X>(const X& v) { return v * X(Scalar<X>(scale)); });
  return record(
      "average_pool2d", y, {x}, [windows, scale](const Array& gradient, InputGradients& into) {
        into.add(0, unpooled(windows, gradient, scale,
                             [&]<class T>(std::int64_t, std::int64_t, const T* dy, T* dx) {
                               windows.for_each_column(
                                   [=](auto j, auto column) { dx[column] += dy[j]; });
                             }));
      });
}

}  // namespace tapestry
