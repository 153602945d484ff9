#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/checksum.hpp"
#include "data/images/images.hpp"

using namespace tapestry;

namespace {

using Picture = std::vector<float>;

Picture draw(int garment_class, Random& random) {
  const Array image = make_garment(garment_class, random);
  const auto pixels = image.values<float>();
  return {pixels.begin(), pixels.end()};
}

double squared_distance(const Picture& a, const Picture& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Returns the picture normalized to length 1, because brightness does not depend on the class.
Picture normalized(Picture picture) {
  const double length = std::sqrt(squared_distance(picture, Picture(picture.size())));
  for (float& pixel : picture) pixel /= static_cast<float>(length);
  return picture;
}

Picture mean_of(const std::vector<Picture>& pictures) {
  Picture mean(pictures[0].size());
  for (const Picture& picture : pictures)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += picture[i] / static_cast<float>(pictures.size());
  return mean;
}

std::vector<Picture> draw_many(int garment_class, int count, Random& random) {
  std::vector<Picture> pictures;
  for (int i = 0; i < count; ++i) pictures.push_back(normalized(draw(garment_class, random)));
  return pictures;
}

}  // namespace

TEST_CASE("clothes: an image is 28 by 28 in [0, 1], and the garment fills it") {
  Random random(1, Stream::data);
  for (int garment_class = 0; garment_class < garment_classes; ++garment_class)
    for (int i = 0; i < 50; ++i) {
      CAPTURE(garment_class);
      const Array image = make_garment(garment_class, random);
      CHECK(image.shape() == Shape{28, 28});
      CHECK(image.dtype() == DType::float32);
      int lit = 0, left = 28, right = -1, top = 28, bottom = -1;
      for (int pixel = 0; pixel < 28 * 28; ++pixel) {
        const float value = image.values<float>()[pixel];
        REQUIRE(value >= 0.0f);  // also false for NaN
        REQUIRE(value <= 1.0f);
        if (value < 0.02f) continue;
        ++lit;
        left = std::min(left, pixel % 28), right = std::max(right, pixel % 28);
        top = std::min(top, pixel / 28), bottom = std::max(bottom, pixel / 28);
      }
      CHECK(lit > 60);
      CHECK(lit < 28 * 28);
      CHECK(std::max(right - left, bottom - top) >= 23);
      CHECK(std::abs(left + right - 27) <= 5);
      CHECK(std::abs(top + bottom - 27) <= 5);
    }
}

TEST_CASE("clothes: the same random state gives the same bits") {
  for (int garment_class = 0; garment_class < garment_classes; ++garment_class) {
    Random first(3, Stream::data, 5), second(3, Stream::data, 5), other(4, Stream::data, 5);
    const Picture picture = draw(garment_class, first);
    CHECK(picture == draw(garment_class, second));
    CHECK(picture != draw(garment_class, other));
    CHECK(draw(garment_class, first) == draw(garment_class, second));
  }
}

TEST_CASE("clothes: the pixels are those of version 0.1.0 when it was first released") {
  Random random(3, Stream::data, 5);
  Checksum pixels;
  for (int i = 0; i < 1000; ++i) pixels.add(make_garment(i % garment_classes, random));
  CHECK(pixels.hex() == "2453a82ff1b36fda");
}

TEST_CASE("clothes: images of a class differ, and differ more from other classes") {
  Random random(7, Stream::data);
  std::vector<Picture> means;
  for (int garment_class = 0; garment_class < garment_classes; ++garment_class) {
    const std::vector<Picture> pictures = draw_many(garment_class, 200, random);
    means.push_back(mean_of(pictures));
    double variance = 0.0;
    for (const Picture& picture : pictures)
      variance += squared_distance(picture, means.back()) / static_cast<double>(pictures.size());
    CAPTURE(garment_class);
    CHECK(variance > 0.02);  // of a picture whose squared length is 1
  }

  int correct = 0, drawn = 0;
  for (int garment_class = 0; garment_class < garment_classes; ++garment_class)
    for (const Picture& picture : draw_many(garment_class, 50, random)) {
      const auto nearest = std::min_element(means.begin(), means.end(), [&](auto& a, auto& b) {
        return squared_distance(picture, a) < squared_distance(picture, b);
      });
      correct += nearest - means.begin() == garment_class;
      ++drawn;
    }
  MESSAGE("nearest class mean: ", correct, " of ", drawn);
  CHECK(correct >= 0.7 * drawn);
}

TEST_CASE("clothes: each class has a name") {
  std::set<std::string> names;
  for (int garment_class = 0; garment_class < garment_classes; ++garment_class)
    names.insert(garment_name(garment_class));
  CHECK(names.size() == garment_classes);
  CHECK(garment_name(0) == std::string("t-shirt"));
  CHECK(garment_name(9) == std::string("ankle boot"));

  Random random(1, Stream::data);
  for (const int outside : {-1, garment_classes}) {
    CHECK_THROWS_AS(garment_name(outside), std::invalid_argument);
    CHECK_THROWS_AS(make_garment(outside, random), std::invalid_argument);
  }
}
