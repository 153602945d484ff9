#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "tests/support/exact_terms.hpp"

// Tests convolutions and pooling of small integers as test_integers.cpp does.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("integers");

struct Convolution {
  Shape images, weight;  // (B, C, H, W), (O, C, K, K)
  ConvolutionOptions options;
};

// Calls add(y, x, weight) with the indices of each product of the definition.
void for_each_product(const Convolution& shape, const Shape& y, const auto& add) {
  const auto [C, H, W] = std::tuple(shape.images[1], shape.images[2], shape.images[3]);
  const std::int64_t O = y[1], K = shape.weight[2];
  for (std::int64_t at = 0; at < y.elements(); ++at) {
    const std::int64_t j = at % y[3], i = at / y[3] % y[2], o = at / (y[2] * y[3]) % O,
                       b = at / (y[2] * y[3] * O);
    for (std::int64_t c = 0; c < C; ++c)
      for (std::int64_t p = 0; p < K; ++p)
        for (std::int64_t q = 0; q < K; ++q) {
          const std::int64_t row = i * shape.options.stride + p - shape.options.padding;
          const std::int64_t column = j * shape.options.stride + q - shape.options.padding;
          if (row >= 0 && row < H && column >= 0 && column < W)
            add(at, ((b * C + c) * H + row) * W + column, ((o * C + c) * K + p) * K + q);
        }
  }
}

TEST_CASE("integers: convolutions, their transposes and their gradients are exact") {
  std::vector<Convolution> rows = {// images in blocks, an image in blocks of rows, and both
                                   {{45, 3, 28, 28}, {8, 3, 3, 3}, {.stride = 2, .padding = 1}},
                                   {{2, 4, 70, 61}, {3, 4, 5, 5}, {.padding = 2}},
                                   {{1, 6, 131, 64}, {3, 6, 4, 4}, {.stride = 3, .padding = 1}},
                                   {{0, 2, 5, 5}, {3, 2, 3, 3}, {}}};
  for (const std::int64_t K : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3, 6})
      for (const std::int64_t padding : {0, 1, 4})
        rows.push_back({{2, 3, 9, 6}, {5, 3, K, K}, {.stride = stride, .padding = padding}});
  for (const Convolution& row : rows) {
    const std::string name = fmt::format("{} {}, stride {}, padding {}", row.images, row.weight,
                                         row.options.stride, row.options.padding);
    const std::int64_t O = row.weight[0], C = row.weight[1];
    Shape y{row.images[0], O, 0, 0};
    for (const int axis : {2, 3})
      y[axis] =
          (row.images[axis] + 2 * row.options.padding - row.weight[2]) / row.options.stride + 1;
    check_exact({"convolution2d " + name,
                 [&](In x) { return convolution2d(x[0], x[1], row.options, x[2]); },
                 {integers(row.images, 1), integers(row.weight, 2), integers({O}, 3)},
                 [&](const AddTerm& add) {
                   for (std::int64_t i = 0; i < y.elements(); ++i)
                     add(i, 1, {{2, i / (y[2] * y[3]) % O}});
                   for_each_product(row, y, [&](auto to, auto from, auto weight) {
                     add(to, 1, {{0, from}, {1, weight}});
                   });
                 }});
    const std::int64_t pixels = row.images[2] * row.images[3];
    check_exact({"transposed_convolution2d " + name,
                 [&](In x) {
                   return transposed_convolution2d(x[0], x[1],
                                                   {.stride = row.options.stride,
                                                    .padding = row.options.padding,
                                                    .height = row.images[2],
                                                    .width = row.images[3]},
                                                   x[2]);
                 },
                 {integers(y, 1), integers(row.weight, 2), integers({C}, 3)},
                 [&](const AddTerm& add) {
                   for (std::int64_t i = 0; i < row.images.elements(); ++i)
                     add(i, 1, {{2, i / pixels % C}});
                   for_each_product(row, y, [&](auto from, auto to, auto weight) {
                     add(to, 1, {{0, from}, {1, weight}});
                   });
                 }});
  }
}

// Few integers have many ties, and the first of equal maxima gets the gradient.
TEST_CASE("integers: pooling and its gradients are exact") {
  for (const std::int64_t K : {1, 2, 4})
    for (const std::int64_t stride : {1, 2, 3, 5})
      for (const std::int64_t padding : {std::int64_t{0}, K / 2})
        for (const Shape& images : {Shape{2, 3, 28, 28}, {1, 2, 9, 37}, {2, 1, 4, 5}}) {
          const PoolOptions options{.kernel = K, .stride = stride, .padding = padding};
          const Array x = integers(images, 1);
          const std::int64_t H = images[2], W = images[3];
          const std::int64_t h = (H + 2 * padding - K) / stride + 1,
                             w = (W + 2 * padding - K) / stride + 1;
          const auto for_each_pixel = [=](std::int64_t output, const auto& call) {
            const std::int64_t top = output / w % h * stride - padding,
                               left = output % w * stride - padding;
            for (std::int64_t row = top; row < top + K; ++row)
              for (std::int64_t column = left; column < left + K; ++column)
                if (row >= 0 && row < H && column >= 0 && column < W)
                  call((output / (h * w) * H + row) * W + column);
          };
          const std::int64_t outputs = images[0] * images[1] * h * w;
          const std::string name =
              fmt::format("{} kernel {}, stride {}, padding {}", images, K, stride, padding);
          check_exact({"max_pool2d " + name,
                       [=](In in) { return max_pool2d(in[0], options); },
                       {x},
                       [=](const AddTerm& add) {
                         const auto values = x.values<double>();
                         for (std::int64_t output = 0; output < outputs; ++output) {
                           std::int64_t best = -1;
                           for_each_pixel(output, [&](std::int64_t i) {
                             if (best < 0 || values[i] > values[best]) best = i;
                           });
                           add(output, 1, {{0, best}});
                         }
                       }});
          check_exact({"average_pool2d " + name,
                       [=](In in) { return average_pool2d(in[0], options); },
                       {x},
                       [=](const AddTerm& add) {
                         for (std::int64_t output = 0; output < outputs; ++output)
                           for_each_pixel(output, [&](std::int64_t i) {
                             add(output, 1.0 / static_cast<double>(K * K), {{0, i}});
                           });
                       }});
        }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
