#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

struct Case {
  Shape images, weight;
  ConvolutionOptions options;
};

// Whole images in blocks, an image in blocks of rows, and both with a last block that is smaller.
const Case cases[] = {
    {{45, 3, 28, 28}, {8, 3, 3, 3}, {.stride = 2, .padding = 1}},
    {{2, 8, 70, 61}, {5, 8, 5, 5}, {.stride = 1, .padding = 2}},
    {{1, 6, 131, 64}, {3, 6, 4, 4}, {.stride = 3, .padding = 1}},
};

// The convolution by its definition.
double defined(const Case& shape, const std::vector<double>& x, const std::vector<double>& weight,
               std::int64_t b, std::int64_t o, std::int64_t i, std::int64_t j) {
  const std::int64_t C = shape.images[1], H = shape.images[2], W = shape.images[3],
                     K = shape.weight[2];
  double sum = 0;
  for (std::int64_t c = 0; c < C; ++c)
    for (std::int64_t p = 0; p < K; ++p)
      for (std::int64_t q = 0; q < K; ++q) {
        const std::int64_t y = i * shape.options.stride + p - shape.options.padding;
        const std::int64_t z = j * shape.options.stride + q - shape.options.padding;
        if (y >= 0 && y < H && z >= 0 && z < W)
          sum += weight[((o * C + c) * K + p) * K + q] * x[((b * C + c) * H + y) * W + z];
      }
  return sum;
}

double inner(const Array& a, const Array& b) {
  const std::vector<double> x = doubles(a), y = doubles(b);
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

TEST_CASE("convolution2d: in blocks it is what its definition says, and its gradients fit") {
  for (const Case& shape : cases) {
    const Tensor x = Tensor::variable(normal(shape.images));
    const Tensor weight = Tensor::variable(normal(shape.weight));
    Tape tape;
    const Tensor y = convolution2d(x, weight, shape.options);
    const std::vector<double> values = doubles(y.value()), pixels = doubles(x.value()),
                              weights = doubles(weight.value());
    const std::int64_t O = y.dim(1), h = y.dim(2), w = y.dim(3);
    for (std::int64_t at = 0; at < y.size(); at += 97)
      CHECK(values[at] == doctest::Approx(defined(shape, pixels, weights, at / (O * h * w),
                                                  at / (h * w) % O, at / w % h, at % w)));
    // It is linear in the image and in the weight: ⟨g, y⟩ = ⟨dx, x⟩ = ⟨dw, w⟩.
    const Array g = normal(y.shape());
    const Gradients gradients = tape.backward(y, g);
    const double wanted = inner(g, y.value());
    CHECK(inner(gradients[x], x.value()) == doctest::Approx(wanted).epsilon(1e-9));
    CHECK(inner(gradients[weight], weight.value()) == doctest::Approx(wanted).epsilon(1e-9));
    const Tensor back = transposed_convolution2d(g, weight,
                                                 {.stride = shape.options.stride,
                                                  .padding = shape.options.padding,
                                                  .height = shape.images[2],
                                                  .width = shape.images[3]});
    check_close(back.value(), gradients[x]);
  }
}

TEST_CASE("convolution2d: its bias is one that is added, and so is its gradient") {
  for (const bool transposed : {false, true}) {
    const Tensor x = Tensor::variable(normal({3, 4, 9, 8}));
    const Tensor weight =
        Tensor::variable(normal(transposed ? Shape{4, 5, 3, 3} : Shape{5, 4, 3, 3}));
    const Tensor bias = Tensor::variable(normal({5}));
    const auto run = [&](const Tensor& fused) {
      return transposed ? transposed_convolution2d(x, weight, {.stride = 2, .padding = 1}, fused)
                        : convolution2d(x, weight, {.stride = 2, .padding = 1}, fused);
    };
    const auto gradients_of = [&](const std::function<Tensor()>& forward) {
      Tape tape;
      const Tensor y = forward();
      return std::pair(y.value(), tape.backward(sum(y * y)));
    };
    const auto [value, gradients] = gradients_of([&] { return run(bias); });
    const auto [wanted, wanted_gradients] = gradients_of([&] {
      return run({}) + reshape(bias, {-1, 1, 1});
    });
    check_close(value, wanted);
    for (const Tensor& input : {x, weight, bias})
      check_close(gradients[input], wanted_gradients[input]);
  }
  CHECK_THROWS_WITH_AS(
      convolution2d(normal({1, 2, 3, 3}), normal({4, 2, 3, 3}), {}, normal({3})),
      doctest::Contains("convolution2d: bias is float64 (3,); expected float64 (4,)"),
      std::invalid_argument);
}

TEST_CASE("unfold: windows by hand") {
  const Array x = Array::of(std::vector{1.0, 2.0, 3.0, 4.0}, {1, 4, 1});
  CHECK(doubles(unfold(x, {}).value()) == std::vector<double>{1, 2, 3, 2, 3, 4});
  CHECK(doubles(unfold(x, {.width = 2, .stride = 2}).value()) == std::vector<double>{1, 2, 3, 4});
  CHECK(unfold(x, {.width = 5}).shape() == Shape{1, 0, 5});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
