#include "autograd/ops/convolution.hpp"

#include <algorithm>
#include <utility>

#include "autograd/buffer_pool.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/direct_convolution.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The sizes of a convolution of images (B, C, H, W) to features (B, O, h, w).
struct Geometry : DirectConvolution {
  std::int64_t stride;
  DType dtype;

  Shape images() const { return {B, C, H, W}; }
  Shape features() const { return {B, O, h, w}; }

  // Returns the number of phases into which a row of an image, with padding, is divided: the pixels
  // 0, stride, 2 stride, …, then 1, 1 + stride, …, and so on. So an element of the kernel reads
  // contiguous pixels.
  std::int64_t phases() const { return std::min(stride, K); }
  std::int64_t phase_width() const { return w + (K - 1) / stride; }
  // Return the range [first, last) of the elements j of a phase that are in the image: j is pixel
  // j stride + phase - padding.
  std::int64_t first(std::int64_t phase) const {
    return std::clamp<std::int64_t>((padding - phase + stride - 1) / stride, 0, phase_width());
  }
  std::int64_t last(std::int64_t phase) const {
    const std::int64_t room = W - 1 + padding - phase;
    return room < 0 ? 0 : std::min(phase_width(), room / stride + 1);
  }
};

// The positions that one product computes, whose columns stay in the cache: those of whole images,
// or of some rows of one image.
struct Block {
  std::int64_t image, images, row, rows;
};

// The blocks of a convolution, which depend on its sizes only.
struct Blocks {
  const Geometry& g;
  std::int64_t images, rows, per_image;

  explicit Blocks(const Geometry& geometry) : g(geometry) {
    constexpr std::int64_t elements = 1 << 17;  // in the columns and features of a block
    const std::int64_t row = (g.patch() + g.O) * g.w;
    rows = std::clamp<std::int64_t>(elements / std::max<std::int64_t>(1, row), 1, g.h);
    images = std::clamp<std::int64_t>(elements / std::max<std::int64_t>(1, row * g.h), 1,
                                      std::max<std::int64_t>(1, g.B));
    per_image = (g.h + rows - 1) / rows;
  }
  // Returns the number of groups of images.
  std::int64_t groups() const { return (g.B + images - 1) / images; }
  std::int64_t count() const { return groups() * per_image; }
  Block operator[](std::int64_t index) const {
    const std::int64_t image = index / per_image * images, row = index % per_image * rows;
    return {.image = image,
            .images = std::min(images, g.B - image),
            .row = row,
            .rows = std::min(rows, g.h - row)};
  }
};

// The memory of one thread for a block: columns, features and padded planes, and the copies between
// them and the tensors.
template <class T>
class BlockMemory {
 public:
  explicit BlockMemory(const Blocks& blocks)
      : g_(blocks.g),
        phases_(g_.phases()),
        width_(g_.phase_width()),
        columns_(g_.patch() * blocks.images * blocks.rows * g_.w),
        features_(g_.O * blocks.images * blocks.rows * g_.w),
        planes_(blocks.images * phases_ * plane_rows(blocks.rows) * width_),
        memory_(
            allocate_workspace(sizeof(T) * (columns_ + features_ + planes_ + 2 * simd_width<T>))) {}

  T* columns() { return reinterpret_cast<T*>(memory_.get()); }    // (C K K, positions)
  T* features() { return columns() + columns_ + simd_width<T>; }  // (O, positions)
  std::int64_t positions() const { return block_.images * block_.rows * g_.w; }

  // Selects the block of the following calls.
  void begin(const Block& block) { block_ = block; }

  // Copies the patch of each position of the images to the columns.
  void read_columns(const T* images) {
    T *planes = this->planes(), *columns = this->columns();
    std::fill_n(planes, planes_, T(0));  // the padding of all channels
    for (std::int64_t c = 0; c < g_.C; ++c) {
      walk_planes(c, [=, stride = g_.stride](std::int64_t plane, std::int64_t pixel,
                                             std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) planes[plane + j] = images[pixel + j * stride];
      });
      // Copies whole registers; elements beyond the end of a row of columns are overwritten by the
      // next row.
      walk_kernel(c, [=, this](std::int64_t plane, std::int64_t column) {
        for (std::int64_t j = 0; j < g_.w; j += simd_width<T>)
          Simd<T>::load_unaligned(planes + plane + j).store_unaligned(columns + column + j);
      });
    }
  }

  // Adds each column to the pixels that read_columns copied it from.
  void add_columns(T* images) {
    T *planes = this->planes(), *columns = this->columns();
    for (std::int64_t c = 0; c < g_.C; ++c) {
      std::fill_n(planes, planes_, T(0));
      walk_kernel(c, [=, this](std::int64_t plane, std::int64_t column) {
        map_span(g_.w, {planes + plane, columns + column}, planes + plane,
                 [](auto sum, auto v) { return sum + v; });
      });
      walk_planes(c, [=, this](std::int64_t plane, std::int64_t pixel, std::int64_t begin,
                               std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j)
          images[pixel + j * g_.stride] += planes[plane + j];
      });
    }
  }

  void read_features(const T* features) {
    T* block = this->features();
    walk_features([=](std::int64_t from, std::int64_t to, std::int64_t, std::int64_t n) {
      std::copy_n(features + from, n, block + to);
    });
  }

  // Copies the features of the block to the tensor and adds bias (O), which may be null.
  void write_features(T* features, const T* bias) {
    T* block = this->features();
    walk_features([=](std::int64_t to, std::int64_t from, std::int64_t o, std::int64_t n) {
      const Simd<T> b(bias ? bias[o] : T(0));
      map_span(n, {block + from}, features + to, [b](auto v) { return v + b; });
    });
  }

 private:
  T* planes() { return features() + features_; }  // (images, phases, rows, phase_width)
  std::int64_t plane_rows(std::int64_t rows) const { return (rows - 1) * g_.stride + g_.K; }

  // Calls fn(plane, pixel, begin, end) for each row of each phase of channel c: for j in [begin,
  // end), element plane + j of the planes is pixel + j stride of the image; other j are padding.
  template <class Fn>
  void walk_planes(std::int64_t c, Fn fn) const {
    const std::int64_t rows = plane_rows(block_.rows), top = block_.row * g_.stride - g_.padding;
    const std::int64_t first = std::max<std::int64_t>(0, -top), last = std::min(rows, g_.H - top);
    for (std::int64_t image = 0; image < block_.images; ++image)
      for (std::int64_t phase = 0; phase < phases_; ++phase) {
        const std::int64_t begin = g_.first(phase), end = g_.last(phase);
        const std::int64_t plane = (image * phases_ + phase) * rows;
        const std::int64_t y = ((block_.image + image) * g_.C + c) * g_.H + top;
        for (std::int64_t row = first; row < last; ++row)
          fn((plane + row) * width_, (y + row) * g_.W + phase - g_.padding, begin, end);
      }
  }

  // Calls fn(plane, column) for each element of the kernel on channel c and each row of positions,
  // which are w contiguous elements of the planes and of the columns.
  template <class Fn>
  void walk_kernel(std::int64_t c, Fn fn) const {
    const std::int64_t rows = plane_rows(block_.rows);
    std::int64_t column = c * g_.K * g_.K * positions();
    for (std::int64_t p = 0; p < g_.K; ++p)
      for (std::int64_t q = 0; q < g_.K; ++q) {
        const std::int64_t phase = q % g_.stride, shift = q / g_.stride;
        for (std::int64_t image = 0; image < block_.images; ++image) {
          std::int64_t plane = ((image * phases_ + phase) * rows + p) * width_ + shift;
          for (std::int64_t i = 0; i < block_.rows;
               ++i, column += g_.w, plane += g_.stride * width_)
            fn(plane, column);
        }
      }
  }

  // Calls fn(offset in the features, offset in the block, channel, n) for each contiguous run.
  template <class Fn>
  void walk_features(Fn fn) const {
    const std::int64_t n = block_.rows * g_.w;
    for (std::int64_t o = 0; o < g_.O; ++o)
      for (std::int64_t image = 0; image < block_.images; ++image)
        fn((((block_.image + image) * g_.O + o) * g_.h + block_.row) * g_.w,
           (o * block_.images + image) * n, o, n);
  }

  const Geometry& g_;
  std::int64_t phases_, width_;  // size of the planes
  std::int64_t columns_, features_, planes_;
  std::shared_ptr<std::byte[]> memory_;
  Block block_{};
};

template <class T>
std::byte* bytes(T* values) {
  return reinterpret_cast<std::byte*>(values);
}

void count_flops(const Geometry& g) { profile::add_flops(2.0 * g.B * g.O * g.h * g.w * g.patch()); }

// Counts the operations in a dry run, where no product does.
void note_flops(const Geometry& g) {
  if (is_dry_run()) count_flops(g);
}

// Returns whether the convolution is computed directly, which small ones with overlapping patches
// are: a copy of each patch takes longer than its products.
bool is_direct(const Geometry& g) {
  constexpr std::int64_t elements =
      1 << 16;  // of an image with its padding, which stays in the cache
  return g.stride == 1 && g.padding < g.K && g.patch() <= longest_run &&
         g.O * g.K * g.K <= longest_run && g.h >= 1 && g.w >= 1 &&
         std::max(g.C, g.O) * (g.H + 2 * g.K) * (g.W + 2 * g.K) <= elements &&
         matmul_precision() == MatmulPrecision::float32;
}

// Returns the convolution whose features are the images of another one, with the weight flipped.
DirectConvolution mirrored(DirectConvolution g) {
  std::swap(g.C, g.O);
  std::swap(g.H, g.h);
  std::swap(g.W, g.w);
  g.padding = g.K - 1 - g.padding;
  return g;
}

// Returns weight (O, C, K, K) as (C, O, K, K) with each kernel turned by half a turn.
Array flipped(const Array& weight) {
  const std::int64_t O = weight.dim(0), C = weight.dim(1), K = weight.dim(2);
  Array turned({C, O, K, K}, weight.dtype());
  if (is_dry_run()) return turned;
  dispatch(weight.dtype(), [&]<class T>() {
    const T* from = weight.values<T>().data();
    T* to = turned.mutable_values<T>().data();
    for (std::int64_t o = 0; o < O; ++o)
      for (std::int64_t c = 0; c < C; ++c)
        std::reverse_copy(from + (o * C + c) * K * K, from + (o * C + c + 1) * K * K,
                          to + (c * O + o) * K * K);
  });
  return turned;
}

// The three products of a convolution. Each is linear in both arguments, so they are also each
// other's gradients.

// Returns the features (B, O, h, w); bias (O) may be empty.
Array features_of(const Array& images, const Array& weight, const Array& bias, const Geometry& g) {
  Array features(g.features(), g.dtype);
  if (is_direct(g)) {
    count_flops(g);
    direct_features(g, images, weight, bias, features);
    return features;
  }
  const Blocks blocks(g);
  note_flops(g);
  const MatmulPrecision precision = matmul_precision();
  dispatch(g.dtype, [&]<class T>() {
    parallel_for(blocks.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      const UseMatmulPrecision same(precision);  // on other threads too
      BlockMemory<T> memory(blocks);
      for (std::int64_t i = begin; i < end; ++i) {
        memory.begin(blocks[i]);
        memory.read_columns(images.values<T>().data());
        multiply_matrices({.dtype = g.dtype, .m = g.O, .n = memory.positions(), .k = g.patch()},
                          {{weight.raw(), bytes(memory.columns()), bytes(memory.features())}});
        memory.write_features(features.mutable_values<T>().data(),
                              bias.empty() ? nullptr : bias.values<T>().data());
      }
    });
  });
  return features;
}

// Returns the images (B, C, H, W); bias (C) may be empty. Blocks of one image share pixels, so one
// thread computes them.
Array images_of(const Array& features, const Array& weight, const Array& bias, const Geometry& g) {
  Array images(g.images(), g.dtype);
  if (is_direct(g)) {
    count_flops(g);
    direct_features(mirrored(g), features, flipped(weight), bias, images);
    return images;
  }
  const Blocks blocks(g);
  note_flops(g);
  const MatmulPrecision precision = matmul_precision();
  dispatch(g.dtype, [&]<class T>() {
    T* pixels = images.mutable_values<T>().data();
    for_each_row(g.B * g.C, g.H * g.W, [&](std::int64_t plane) {
      const T start = bias.empty() ? T(0) : bias.values<T>()[plane % g.C];
      std::fill_n(pixels + plane * g.H * g.W, g.H * g.W, start);
    });
    parallel_for(blocks.groups(), 1, [&](std::int64_t begin, std::int64_t end) {
      const UseMatmulPrecision same(precision);
      BlockMemory<T> memory(blocks);
      for (std::int64_t i = begin * blocks.per_image; i < end * blocks.per_image; ++i) {
        memory.begin(blocks[i]);
        memory.read_features(features.values<T>().data());
        multiply_matrices({.dtype = g.dtype,
                           .m = g.patch(),
                           .n = memory.positions(),
                           .k = g.O,
                           .transpose_a = true},
                          {{weight.raw(), bytes(memory.features()), bytes(memory.columns())}});
        memory.add_columns(pixels);
      }
    });
  });
  return images;
}

// Returns the weight (O, C, K, K) as the sum of partial sums, each of `length` images or blocks.
// The number of sums is limited to save memory.
Array weight_of(const Array& images, const Array& features, const Geometry& g) {
  constexpr std::int64_t fewest_lanes = 4;
  // Images that one sum may add, with at most longest_run terms; 0: not directly.
  const std::int64_t images_of_run =
      longest_run / (g.h * ((g.w + fewest_lanes - 1) / fewest_lanes));
  if (is_direct(g) && images_of_run > 0) {
    count_flops(g);
    const std::int64_t length = std::clamp<std::int64_t>((g.B + 15) / 16, 1, images_of_run);
    const std::int64_t sums = std::max<std::int64_t>(1, (g.B + length - 1) / length);
    Array weights = Array::zeros({sums, g.O, g.patch()}, g.dtype);
    direct_weight(g, images, features, length, weights);
    return sum_to(weights, {1, g.O, g.patch()}).reshaped({g.O, g.C, g.K, g.K});
  }
  const Blocks blocks(g);
  note_flops(g);
  const std::int64_t most =
      std::clamp<std::int64_t>(g.B * g.h * g.w / std::max<std::int64_t>(1, g.O), 1, 16);
  const std::int64_t length = std::max<std::int64_t>(1, (blocks.count() + most - 1) / most);
  const std::int64_t sums = std::max<std::int64_t>(1, (blocks.count() + length - 1) / length);
  Array weights = Array::zeros({sums, g.O, g.patch()}, g.dtype);
  const MatmulPrecision precision = matmul_precision();
  dispatch(g.dtype, [&]<class T>() {
    parallel_for(blocks.count(), length, [&](std::int64_t begin, std::int64_t end) {
      const UseMatmulPrecision same(precision);
      BlockMemory<T> memory(blocks);
      T* weight = weights.mutable_values<T>().data() + begin / length * g.O * g.patch();
      for (std::int64_t i = begin; i < end; ++i) {
        memory.begin(blocks[i]);
        memory.read_columns(images.values<T>().data());
        memory.read_features(features.values<T>().data());
        multiply_matrices({.dtype = g.dtype,
                           .m = g.O,
                           .n = g.patch(),
                           .k = memory.positions(),
                           .transpose_b = true,
                           .accumulate = true},
                          {{bytes(memory.features()), bytes(memory.columns()), bytes(weight)}});
      }
    });
  });
  return sum_to(weights, {1, g.O, g.patch()}).reshaped({g.O, g.C, g.K, g.K});
}

// Returns the gradient of a bias (A): the sum over examples and pixels of x (B, A, n, m).
Array sum_of_planes(const Array& x) {
  const std::int64_t A = x.dim(1);
  return sum_to(x, {A, 1, 1}).reshaped({A});
}

void check_operands(const char* op, const Tensor& x, const Tensor& weight, int channels,
                    const Tensor& bias, std::int64_t stride, std::int64_t padding) {
  check_same_dtype(op, x, weight);
  require(x.rank() == 4 && weight.rank() == 4 && weight.dim(2) == weight.dim(3) &&
              weight.dim(2) >= 1 && x.dim(1) == weight.dim(channels),
          "{}: x {} with weight {}; expected 4 axes, equal channels and a square kernel", op,
          x.shape(), weight.shape());
  require(stride >= 1 && padding >= 0,
          "{}: stride {} and padding {}; expected stride >= 1 and padding >= 0", op, stride,
          padding);
  if (!bias.value().empty())
    require_array(op, "bias", bias.value(), weight.dtype(), {weight.dim(1 - channels)});
}

// Returns the inputs, with bias if it is not empty.
std::vector<Tensor> inputs_of(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (bias.value().empty()) return {x, weight};
  return {x, weight, bias};
}

}  // namespace

std::int64_t positions_along(std::int64_t pixels, std::int64_t K, std::int64_t stride,
                             std::int64_t padding) {
  const std::int64_t room = pixels + 2 * padding - K;
  return room < 0 ? 0 : room / stride + 1;
}

Tensor convolution2d(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options,
                     const Tensor& bias) {
  const auto [stride, padding] = options;
  check_operands("convolution2d", x, weight, 1, bias, stride, padding);
  const std::int64_t K = weight.dim(2);
  const Geometry g{{.B = x.dim(0),
                    .C = x.dim(1),
                    .H = x.dim(2),
                    .W = x.dim(3),
                    .O = weight.dim(0),
                    .h = positions_along(x.dim(2), K, stride, padding),
                    .w = positions_along(x.dim(3), K, stride, padding),
                    .K = K,
                    .padding = padding},
                   stride,
                   x.dtype()};
  require(g.h >= 1 && g.w >= 1,
          "convolution2d: x {} with padding {} is smaller than the kernel of weight {}; use a "
          "smaller kernel",
          x.shape(), padding, weight.shape());
  return record("convolution2d", features_of(x.value(), weight.value(), bias.value(), g),
                inputs_of(x, weight, bias),
                [x = x.value(), weight = weight.value(), has_bias = !bias.value().empty(), g](
                    const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, images_of(gradient, weight, {}, g));
                  if (into.wanted(1)) into.add(1, weight_of(x, gradient, g));
                  if (has_bias) into.add(2, sum_of_planes(gradient));
                });
}

Tensor transposed_convolution2d(const Tensor& x, const Tensor& weight,
                                const TransposedConvolutionOptions& options, const Tensor& bias) {
  const auto [stride, padding, height, width] = options;
  check_operands("transposed_convolution2d", x, weight, 0, bias, stride, padding);
  const std::int64_t K = weight.dim(2), h = x.dim(2), w = x.dim(3);
  const Geometry g{{.B = x.dim(0),
                    .C = weight.dim(1),
                    .H = height != 0 ? height : (h - 1) * stride + K - 2 * padding,
                    .W = width != 0 ? width : (w - 1) * stride + K - 2 * padding,
                    .O = x.dim(1),
                    .h = h,
                    .w = w,
                    .K = K,
                    .padding = padding},
                   stride,
                   x.dtype()};
  require(g.H >= 1 && g.W >= 1 && positions_along(g.H, K, stride, padding) == h &&
              positions_along(g.W, K, stride, padding) == w,
          "transposed_convolution2d: x {} with weight {}, stride {} and padding {} cannot become "
          "images of {} × {}; expected a size that convolution2d maps to x",
          x.shape(), weight.shape(), stride, padding, g.H, g.W);
  return record("transposed_convolution2d", images_of(x.value(), weight.value(), bias.value(), g),
                inputs_of(x, weight, bias),
                [x = x.value(), weight = weight.value(), has_bias = !bias.value().empty(), g](
                    const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, features_of(gradient, weight, {}, g));
                  if (into.wanted(1)) into.add(1, weight_of(gradient, x, g));
                  if (has_bias) into.add(2, sum_of_planes(gradient));
                });
}

}  // namespace tapestry
