#include "autograd/ops/convolution.hpp"

#include <algorithm>

#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// A convolution between images (B, C, H, W) and features (B, O, h, w).
struct Geometry {
  std::int64_t B, C, H, W, O, h, w, K, stride, padding;
  DType dtype;

  Shape images() const { return {B, C, H, W}; }
  Shape features() const { return {B, O, h, w}; }
  Shape weight() const { return {O, C, K, K}; }
  std::int64_t patch() const { return C * K * K; }      // the pixels under a kernel
  std::int64_t positions() const { return B * h * w; }  // the places where a kernel is laid

  // For the columns j in [first, last) of [0, w), pixel j stride + offset - padding is in the
  // image.
  std::int64_t first(std::int64_t offset) const {
    return std::clamp<std::int64_t>((padding - offset + stride - 1) / stride, 0, w);
  }
  std::int64_t last(std::int64_t offset) const {
    const std::int64_t room = W - 1 + padding - offset;
    return room < 0 ? 0 : std::min(w, room / stride + 1);
  }
};

// (A, N, n) -> (N, A, n).
Array swapped(const Array& x, std::int64_t A, std::int64_t N, std::int64_t n) {
  Array y({N, A, n}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.values<T>().data();
    T* to = y.mutable_values<T>().data();
    for_each_row(N * A, n, [=](std::int64_t row) {
      std::copy_n(from + (row % A * N + row / A) * n, n, to + row * n);
    });
  });
  return y;
}

// Calls fn(image, row, j0, j1) for each row of positions on the plane (b, c) of the images, and
// each element (p, q) of the kernel. For j in [j0, j1), the pixel at image + j stride stands in the
// columns at row + j; the other j of [0, w) are padding. No two planes share a pixel or an element.
template <class Fn>
void walk_plane(const Geometry& g, std::int64_t plane, Fn fn) {
  const std::int64_t b = plane / g.C, c = plane % g.C;
  for (std::int64_t p = 0; p < g.K; ++p)
    for (std::int64_t q = 0; q < g.K; ++q)
      for (std::int64_t i = 0; i < g.h; ++i) {
        const std::int64_t y = i * g.stride + p - g.padding;
        const std::int64_t column = (((c * g.K + p) * g.K + q) * g.B + b) * g.h + i;
        const bool inside = y >= 0 && y < g.H;
        fn(inside ? (plane * g.H + y) * g.W + q - g.padding : -1, column * g.w,
           inside ? g.first(q) : g.w, inside ? std::max(g.first(q), g.last(q)) : g.w);
      }
}

// The patch under each position, as columns: (C K K, B h w).
Array columns_of(const Array& images, const Geometry& g) {
  Array columns({g.patch(), g.positions()}, g.dtype);
  dispatch(g.dtype, [&]<class T>() {
    const T* from = images.values<T>().data();
    T* to = columns.mutable_values<T>().data();
    for_each_row(g.B * g.C, g.K * g.K * g.h * g.w, [=](std::int64_t plane) {
      walk_plane(g, plane,
                 [=](std::int64_t image, std::int64_t row, std::int64_t j0, std::int64_t j1) {
                   std::fill_n(to + row, j0, T(0));
                   for (std::int64_t j = j0; j < j1; ++j) to[row + j] = from[image + j * g.stride];
                   std::fill(to + row + j1, to + row + g.w, T(0));
                 });
    });
  });
  return columns;
}

// Adds every column to the pixels that columns_of took it from: (C K K, B h w) -> (B, C, H, W).
Array images_from(const Array& columns, const Geometry& g) {
  Array images = Array::zeros(g.images(), g.dtype);
  dispatch(g.dtype, [&]<class T>() {
    const T* from = columns.values<T>().data();
    T* to = images.mutable_values<T>().data();
    for_each_row(g.B * g.C, g.K * g.K * g.h * g.w, [=](std::int64_t plane) {
      walk_plane(g, plane,
                 [=](std::int64_t image, std::int64_t row, std::int64_t j0, std::int64_t j1) {
                   for (std::int64_t j = j0; j < j1; ++j) to[image + j * g.stride] += from[row + j];
                 });
    });
  });
  return images;
}

// The three products of a convolution. Each is linear in both of its arguments, so they are also
// the gradients of one another. The columns are made again for each: they take K²/stride² times the
// images' memory.

Array features_of(const Array& images, const Array& weight, const Geometry& g) {
  const Array columns = columns_of(images, g);
  Array features({g.O, g.B, g.h * g.w}, g.dtype);
  multiply_matrices({.dtype = g.dtype, .m = g.O, .n = g.positions(), .k = g.patch()},
                    {{weight.raw(), columns.raw(), features.mutable_raw()}});
  return swapped(features, g.O, g.B, g.h * g.w).reshaped(g.features());
}

Array images_of(const Array& features, const Array& weight, const Geometry& g) {
  const Array rows = swapped(features, g.B, g.O, g.h * g.w);
  Array columns({g.patch(), g.positions()}, g.dtype);
  multiply_matrices(
      {.dtype = g.dtype, .m = g.patch(), .n = g.positions(), .k = g.O, .transpose_a = true},
      {{weight.raw(), rows.raw(), columns.mutable_raw()}});
  return images_from(columns, g);
}

void add_weight(Array& weight, bool accumulate, const Array& images, const Array& features,
                const Geometry& g) {
  const Array rows = swapped(features, g.B, g.O, g.h * g.w), columns = columns_of(images, g);
  multiply_matrices({.dtype = g.dtype,
                     .m = g.O,
                     .n = g.patch(),
                     .k = g.positions(),
                     .transpose_b = true,
                     .accumulate = accumulate},
                    {{rows.raw(), columns.raw(), weight.mutable_raw()}});
}

void check_operands(const char* op, const Tensor& x, const Tensor& weight, int channels,
                    std::int64_t stride, std::int64_t padding) {
  check_same_dtype(op, x, weight);
  require(x.rank() == 4 && weight.rank() == 4 && weight.dim(2) == weight.dim(3) &&
              weight.dim(2) >= 1 && x.dim(1) == weight.dim(channels),
          "{}: x {} with weight {}", op, to_string(x.shape()), to_string(weight.shape()));
  require(stride >= 1 && padding >= 0, "{}: stride {} and padding {}", op, stride, padding);
}

// The positions of a kernel along an axis of so many pixels; 0 where it does not fit.
std::int64_t positions_along(std::int64_t pixels, std::int64_t K, std::int64_t stride,
                             std::int64_t padding) {
  const std::int64_t room = pixels + 2 * padding - K;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

Tensor convolution2d(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options) {
  const auto [stride, padding] = options;
  check_operands("convolution2d", x, weight, 1, stride, padding);
  const std::int64_t K = weight.dim(2);
  const Geometry g{.B = x.dim(0),
                   .C = x.dim(1),
                   .H = x.dim(2),
                   .W = x.dim(3),
                   .O = weight.dim(0),
                   .h = positions_along(x.dim(2), K, stride, padding),
                   .w = positions_along(x.dim(3), K, stride, padding),
                   .K = K,
                   .stride = stride,
                   .padding = padding,
                   .dtype = x.dtype()};
  require(g.h >= 1 && g.w >= 1, "convolution2d: x {} with weight {} and padding {}",
          to_string(x.shape()), to_string(weight.shape()), padding);
  return record(
      "convolution2d", features_of(x.value(), weight.value(), g), {x, weight},
      [x = x.value(), weight = weight.value(), g](const Array& gradient, InputGradients& into) {
        if (into.wanted(0)) into.add(0, images_of(gradient, weight, g));
        into.accumulate(1, [&](Array& dweight, bool accumulate) {
          add_weight(dweight, accumulate, x, gradient, g);
        });
      });
}

Tensor transposed_convolution2d(const Tensor& x, const Tensor& weight,
                                const TransposedConvolutionOptions& options) {
  const auto [stride, padding, height, width] = options;
  check_operands("transposed_convolution2d", x, weight, 0, stride, padding);
  const std::int64_t K = weight.dim(2), h = x.dim(2), w = x.dim(3);
  const Geometry g{.B = x.dim(0),
                   .C = weight.dim(1),
                   .H = height > 0 ? height : (h - 1) * stride + K - 2 * padding,
                   .W = width > 0 ? width : (w - 1) * stride + K - 2 * padding,
                   .O = x.dim(1),
                   .h = h,
                   .w = w,
                   .K = K,
                   .stride = stride,
                   .padding = padding,
                   .dtype = x.dtype()};
  require(height >= 0 && width >= 0 && g.H >= 1 && g.W >= 1 &&
              positions_along(g.H, K, stride, padding) == h &&
              positions_along(g.W, K, stride, padding) == w,
          "transposed_convolution2d: x {} with weight {}, stride {} and padding {} to {} × {}",
          to_string(x.shape()), to_string(weight.shape()), stride, padding, g.H, g.W);
  return record(
      "transposed_convolution2d", images_of(x.value(), weight.value(), g), {x, weight},
      [x = x.value(), weight = weight.value(), g](const Array& gradient, InputGradients& into) {
        if (into.wanted(0)) into.add(0, features_of(gradient, weight, g));
        into.accumulate(1, [&](Array& dweight, bool accumulate) {
          add_weight(dweight, accumulate, gradient, x, g);
        });
      });
}

}  // namespace tapestry
