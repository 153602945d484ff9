#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "data/images/outfits.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("data");

TEST_CASE("data: an outfit depends on seed, split and index alone, and its image shows its masks") {
  const Outfits some = make_outfits(20, 3, SyntheticSplit::test);
  CHECK(some.masks.shape() == Shape{20, 2, outfit_side, outfit_side});
  for (const std::int64_t i : {0, 7, 19}) {
    const Outfit one = make_outfit(3, SyntheticSplit::test, i);
    CHECK(one.description == some.descriptions[i]);
    const std::vector<std::int64_t> index{i};
    CHECK(std::ranges::equal(one.image.values<float>(),
                             some.images.batch(index).inputs.values<float>()));
    const auto mask = one.masks.values<float>();
    const auto upper = mask.first(mask.size() / 2), lower = mask.last(mask.size() / 2);
    double common = 0;
    for (std::size_t pixel = 0; pixel < upper.size(); ++pixel)
      common += std::min(upper[pixel], lower[pixel]);
    const double areas[] = {std::accumulate(upper.begin(), upper.end(), 0.0),
                            std::accumulate(lower.begin(), lower.end(), 0.0)};
    CAPTURE(one.description);
    for (const double area : areas) CHECK((area > 30 && area < 250));
    CHECK(common < 0.1 * std::min(areas[0], areas[1]));  // sleeves may reach over the lower one
    const auto image = one.image.values<float>();
    CHECK(std::ranges::all_of(image, [](float x) { return x >= 0 && x <= 1; }));
  }
  CHECK(make_outfit(4, SyntheticSplit::test, 0).description != some.descriptions[0]);
  CHECK_THROWS_AS(make_outfits(0, 1, SyntheticSplit::train), std::invalid_argument);
}

TEST_CASE("data: one color of each kind of garment is in the test split alone") {
  const auto count_new = [&](SyntheticSplit split) {
    int count = 0;
    for (const std::string& text : make_outfits(2000, 1, split).descriptions)
      count += has_new_pair(text);
    return count;
  };
  CHECK(count_new(SyntheticSplit::train) == 0);
  CHECK(count_new(SyntheticSplit::validation) == 0);
  CHECK(count_new(SyntheticSplit::test) / 2000.0 ==
        doctest::Approx(1 - 7.0 / 8 * 7 / 8).epsilon(0.1));
  CHECK(has_new_pair("a red shirt above red dotted trousers"));
  CHECK(has_new_pair("an orange checked t-shirt above a red skirt"));
  CHECK_FALSE(has_new_pair("a red striped shirt above blue trousers"));
  CHECK(is_outfit_color("purple"));
  CHECK_FALSE(is_outfit_color("shirt"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
