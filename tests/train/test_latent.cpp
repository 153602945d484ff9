#include <doctest/doctest.h>

#include <cmath>

#include "autograd/random.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/principal_components.hpp"
#include "train/plot/render.hpp"

namespace tapestry {
namespace {

// --- principal components ---

TEST_SUITE_BEGIN("latent");

TEST_CASE("principal components: of points on a line, the line is the first") {
  // (1, 2) + t (3, 4), t in {-2, -1, 0, 1, 2}, of variance 2: 25 · 2 along (3, 4) / 5.
  std::vector<double> points;
  for (const double t : {-2, -1, 0, 1, 2}) points.insert(points.end(), {1 + 3 * t, 2 + 4 * t});
  const Array x = Array::of(points, {5, 2});
  const PrincipalComponents components = principal_components(x);
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };
  CHECK(components.mean.values<double>()[0] == near(1));
  CHECK(components.mean.values<double>()[1] == near(2));
  CHECK(components.variances[0] == near(50));
  CHECK(std::abs(components.variances[1]) <= 1e-9);
  CHECK(components.axes.values<double>()[0] == near(0.6));
  CHECK(components.axes.values<double>()[1] == near(0.8));
  CHECK(components.factor.values<double>()[0] == near(0.6 * std::sqrt(50)));
  const Array along = project(components, x, 1);
  CHECK(along.shape() == Shape{5, 1});
  for (int i = 0; i < 5; ++i) CHECK(along.values<float>()[i] == doctest::Approx(5 * (i - 2)));
}

TEST_CASE("principal components: axes are orthonormal, and their factor makes the covariance") {
  constexpr std::int64_t N = 200, Z = 6;
  Array x({N, Z}, DType::float64);
  Random(1, Stream::data).fill_normal(x, 0, 1);
  for (std::int64_t i = 0; i < N * Z; ++i)  // of different variances, and correlated
    x.mutable_values<double>()[i] *= static_cast<double>(1 + i % Z) + (i % Z > 0 ? 0.5 : 0.0);
  const PrincipalComponents components = principal_components(x);
  const auto at = [](const Array& a, std::int64_t i, std::int64_t j) {
    return a.values<double>()[i * a.dim(1) + j];
  };
  for (std::int64_t i = 0; i < Z; ++i)
    for (std::int64_t j = 0; j < Z; ++j) {
      double product = 0, made = 0, wanted = 0;
      for (std::int64_t k = 0; k < Z; ++k) {
        product += at(components.axes, i, k) * at(components.axes, j, k);
        made += at(components.factor, k, i) * at(components.factor, k, j);
      }
      for (std::int64_t row = 0; row < N; ++row)
        wanted += (at(x, row, i) - components.mean.values<double>()[i]) *
                  (at(x, row, j) - components.mean.values<double>()[j]);
      CHECK(std::abs(product - (i == j)) <= 1e-10);
      CHECK(std::abs(made - wanted / N) <= 1e-10);
    }
  CHECK(std::ranges::is_sorted(components.variances, std::greater<>()));
}

// --- tables and pictures ---

LatentCodes latent_of(std::int64_t Z) {
  Array train({4, Z}), validation({2, Z});
  Random random(2, Stream::data);
  random.fill_normal(train, 0, 1);
  random.fill_normal(validation, 0, 1);
  return {{{"train", train, {0, 2, 0, 2}}, {"validation", validation, {2, 0}}},
          {"coat", "no one", "it's a bag"}};
}

TEST_CASE("latent: the table has a line for every image, with all digits of its code") {
  const LatentCodes latent = latent_of(2);
  const auto lines = lines_of(latent_csv(latent));
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] == "image,split,class,z1,z2");
  CHECK(lines[1].starts_with("0,train,coat,"));
  CHECK(lines[2].starts_with("1,train,it's a bag,"));
  CHECK(lines[5].starts_with("0,validation,it's a bag,"));
  const std::string last = lines[6].substr(lines[6].rfind(',') + 1);
  CHECK(std::stof(last) == latent.splits[1].z.values<float>()[3]);
}

TEST_CASE("latent: clouds by class, along principal components above three dimensions") {
  for (const std::int64_t Z : {1, 2, 3, 4, 9}) {
    CAPTURE(Z);
    const LatentCodes latent = latent_of(Z);
    const Scatter scatter = latent_scatter(latent);
    REQUIRE(scatter.clouds.size() == 3);
    CHECK(scatter.axes.size() == (Z < 3 ? 2 : 3));
    const std::int64_t dimensions = std::ssize(scatter.axes);
    CHECK(scatter.clouds[0].points.shape() == Shape{3, dimensions});
    CHECK(scatter.clouds[1].points.shape() == Shape{0, dimensions});
    CHECK(scatter.clouds[2].points.shape() == Shape{3, dimensions});
    CHECK(scatter.axes[0].starts_with(Z > 3 ? "component 1 (" : "z1"));
    if (Z <= 3)
      CHECK(scatter.clouds[0].points.values<float>()[0] == latent.splits[0].z.values<float>()[0]);
    const Scatter fewer = latent_scatter(latent, 2);
    CHECK(fewer.title.find("2 of 6 images") != std::string::npos);
    CHECK(fewer.clouds[0].points.dim(0) + fewer.clouds[2].points.dim(0) == 2);

    check_says(render(scatter, Format::svg),
               {"<svg", "coat", "no one", "it's a bag", scatter.axes[0]});
    CHECK(render(scatter, Format::png).starts_with("\x89PNG\r\n\x1a\n"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
