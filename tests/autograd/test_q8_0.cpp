#include <doctest/doctest.h>

#include <limits>
#include <numeric>

#include "autograd/kernels/matmul.hpp"
#include "autograd/ops.hpp"
#include "autograd/q8_0.hpp"
#include "tests/support/arrays.hpp"

// Tests weights in q8_0: the rounding, and the ops that read them.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("q8_0");

// Returns (rows, width) integers of up to 127, with ±127 in every block, so that each scale is 1.
Array block_integers(std::int64_t rows, std::int64_t width) {
  Array array({rows, width});
  auto values = array.mutable_values<float>();
  for (std::int64_t i = 0; i < std::ssize(values); ++i)
    values[i] = static_cast<float>(i % Q8Block::size == 0 ? (i % 64 == 0 ? 127 : -127)
                                                          : i * 37 % 255 - 127);
  return array;
}

TEST_CASE("q8_0: numbers are rounded to 127ths of the largest, halves away from zero") {
  std::vector<float> numbers(Q8Block::size);
  numbers[0] = -254;
  numbers[1] = 1;    // 1 / 2
  numbers[2] = -5;   // -5 / 2
  numbers[3] = 2.9;  // 2.9 / 2
  numbers[31] = 254;
  const Q8Block block = to_q8_block(std::span(numbers).first<Q8Block::size>());
  CHECK(block.scale == 2);
  CHECK(block.numbers[0] == -127);
  CHECK(block.numbers[1] == 1);
  CHECK(block.numbers[2] == -3);
  CHECK(block.numbers[3] == 1);
  CHECK(block.numbers[4] == 0);
  CHECK(block.numbers[31] == 127);
  CHECK(block[0] == -254);
}

TEST_CASE("q8_0: the scale is a number of float16") {
  // 1 / 127 lies between 1032 · 2⁻¹⁷ and 1033 · 2⁻¹⁷, and is closer to the first.
  std::vector<float> numbers(Q8Block::size, 1);
  CHECK(to_q8_block(std::span(numbers).first<Q8Block::size>()).scale == 1032 * 0x1p-17F);
}

TEST_CASE("q8_0: zeros stay zeros, and values that are not finite become NaN") {
  Array array = Array::zeros({2, 64});
  array.mutable_values<float>()[40] = std::numeric_limits<float>::infinity();
  array.mutable_values<float>()[100] = std::numeric_limits<float>::quiet_NaN();
  const Array read = array.to(DType::q8_0).to(DType::float32);
  const auto values = read.values<float>();
  for (std::int64_t i = 0; i < 128; ++i) {
    CAPTURE(i);
    if (i / 32 % 2 == 0)
      CHECK(values[i] == 0);
    else
      CHECK(std::isnan(values[i]));
  }
}

TEST_CASE("q8_0: an array has 36 bytes per 32 numbers, and rounding again changes nothing") {
  const Array rounded = normal({5, 96}, 1, f32).to(DType::q8_0);
  CHECK(rounded.bytes() == 5 * 3 * 36);
  CHECK(rounded.part(96, 160).to(f32).shape() == Shape{64});
  const Array read = rounded.to(f32);
  CHECK(same_bits(read.to(DType::q8_0).to(f32), read));
  CHECK(same_bits(rounded.select({3, 1}).to(f32), read.select({3, 1})));
  CHECK(same_bits(rounded.to(f64), read.to(f64)));
  CHECK(same_bits(read.to(f64).to(DType::q8_0).to(f32), read));
}

TEST_CASE("q8_0: linear with integers is exact") {
  const Array weight = block_integers(70, 64), x = block_integers(3, 64);
  const Array product = linear(x, weight.to(DType::q8_0)).value();
  const auto w = weight.values<float>(), v = x.values<float>(), y = product.values<float>();
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 70; ++j)
      CHECK(y[i * 70 + j] == std::inner_product(&v[i * 64], &v[i * 64] + 64, &w[j * 64], 0.0F));
}

TEST_CASE("q8_0: linear and embedding have the bits of the same numbers in float32") {
  for (const std::int64_t in : {0, 32, 96, 1056, 8224})
    for (const std::int64_t out : {1, 7, 16, 67}) {
      const Array blocks = normal({out, in}, 1, f32).to(DType::q8_0), numbers = blocks.to(f32);
      const Array bias = normal({out}, 2, f32);
      for (const std::int64_t rows : {0, 1, 2, 5, 16, 17}) {
        CAPTURE(in);
        CAPTURE(out);
        CAPTURE(rows);
        const Array x = normal({rows, in}, 3, f32);
        CHECK(same_bits(linear(x, blocks).value(), linear(x, numbers).value()));
        CHECK(same_bits(linear(x, blocks, bias).value(), linear(x, numbers, bias).value()));
      }
      const Array tokens = ints({0, static_cast<std::int32_t>(out - 1), 0}, {3});
      CHECK(same_bits(embedding(blocks, tokens).value(), embedding(numbers, tokens).value()));
    }
}

TEST_CASE("q8_0: linear passes the gradients of x and bias") {
  const Array blocks = normal({7, 64}, 1, f32).to(DType::q8_0);
  const Tensor x = Tensor::variable(normal({2, 64}, 2, f32));
  const Tensor bias = Tensor::variable(normal({7}, 3, f32));
  const auto gradients_with = [&](const Array& weight) {
    Tape tape;
    return tape.backward(sum(linear(x, weight, bias)));
  };
  const Gradients ours = gradients_with(blocks), expected = gradients_with(blocks.to(f32));
  CHECK(same_bits(ours[x], expected[x]));
  CHECK(same_bits(ours[bias], expected[bias]));
}

TEST_CASE("q8_0: only linear and embedding accept such arrays") {
  const Array blocks = normal({4, 32}, 1, f32).to(DType::q8_0);
  CHECK_THROWS_AS(Array({4, 33}, DType::q8_0), std::invalid_argument);
  CHECK_THROWS_AS(Array(Shape{}, DType::q8_0), std::invalid_argument);
  CHECK_THROWS_AS(blocks.part(16, 48), std::invalid_argument);
  CHECK_THROWS_AS(blocks.part(0, 16), std::invalid_argument);
  CHECK_THROWS_AS(blocks.reshaped({32, 4}), std::invalid_argument);
  CHECK_THROWS_AS(blocks.reshaped({128}).select({0}), std::invalid_argument);
  CHECK_THROWS_AS(linear(normal({2, 32}, 1, f64), blocks), std::invalid_argument);
  CHECK_THROWS_AS(linear(normal({2, 64}, 1, f32), blocks), std::invalid_argument);
  CHECK_THROWS_AS(matmul(normal({2, 4}, 1, f32), blocks), std::invalid_argument);
  CHECK_THROWS_AS(Tensor(blocks) + Tensor(blocks), std::invalid_argument);
  CHECK_THROWS_AS(blocks.values<float>(), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
