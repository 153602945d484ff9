#include <doctest/doctest.h>

#include <cmath>

#include "data/images/noise.hpp"
#include "tests/support/arrays.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("data");

std::vector<Random> sources(std::uint64_t first, std::uint64_t last) {
  std::vector<Random> noise;
  for (std::uint64_t i = first; i < last; ++i) noise.emplace_back(3, Stream::eval, i);
  return noise;
}

TEST_CASE("noise: Gaussian noise has its deviation, and masking sets its fraction to 0") {
  const Array images = Array::full({50, 784}, 0.25);
  Random random(1, Stream::data);
  double sum = 0, squares = 0, zeros = 0;
  const double n = static_cast<double>(images.size());
  const Array gaussian = noisy(images, {Noise::gaussian, 0.5}, std::span(&random, 1));
  for (const float value : gaussian.values<float>()) {
    sum += value - 0.25;
    squares += (value - 0.25) * (value - 0.25);
  }
  CHECK(std::abs(sum / n) < 0.02);  // a standard error is 0.0025
  CHECK(std::sqrt(squares / n) == doctest::Approx(0.5).epsilon(0.02));
  const Array masked = noisy(images, {Noise::masked, 0.3}, std::span(&random, 1));
  for (const float value : masked.values<float>()) {
    zeros += value == 0 ? 1 : 0;
    CHECK((value == 0 || value == 0.25F));
  }
  CHECK(zeros / n == doctest::Approx(0.3).epsilon(0.05));
  for (const ImageNoise same :
       {ImageNoise{Noise::none, 0.5}, {Noise::gaussian, 0.0}, {Noise::masked, 0.0}})
    CHECK(same_bits(noisy(images, same, std::span(&random, 1)), images));
}

TEST_CASE("noise: an image has the noise of its own generator in any batch") {
  Array images({3, 20});
  for (std::size_t i = 0; i < 60; ++i)
    images.mutable_values<float>()[i] = static_cast<float>(i + 1) / 64;
  for (const Noise kind : {Noise::gaussian, Noise::masked}) {
    std::vector<Random> all = sources(0, 3), last = sources(2, 3);
    const Array together = noisy(images, {kind, 0.5}, all);
    const Array alone = noisy(Array::of(std::vector<float>(images.values<float>().begin() + 40,
                                                           images.values<float>().end()),
                                        {1, 20}),
                              {kind, 0.5}, last);
    CHECK(std::ranges::equal(together.values<float>().subspan(40), alone.values<float>()));
  }
  std::vector<Random> two = sources(0, 2);
  CHECK_THROWS_AS(noisy(images, {Noise::masked, 0.5}, two), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
