#include "data/images/outfits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "data/images/sketch.hpp"

namespace tapestry {
namespace {

using Rgb = std::array<double, 3>;

struct Dye {
  const char* name;
  Rgb color, second;  // of the garment, and of what a pattern adds
};

constexpr std::array<Dye, 8> dyes{{{"red", {0.85, 0.1, 0.1}, {0.45, 0.02, 0.05}},
                                   {"orange", {0.98, 0.52, 0.05}, {0.62, 0.27, 0}},
                                   {"yellow", {0.97, 0.9, 0.15}, {0.62, 0.54, 0.02}},
                                   {"green", {0.12, 0.62, 0.2}, {0.02, 0.3, 0.08}},
                                   {"blue", {0.12, 0.3, 0.88}, {0.03, 0.1, 0.45}},
                                   {"purple", {0.56, 0.18, 0.7}, {0.28, 0.05, 0.36}},
                                   {"black", {0.06, 0.06, 0.07}, {0.36, 0.36, 0.38}},
                                   {"white", {0.96, 0.96, 0.95}, {0.5, 0.5, 0.53}}}};

constexpr std::array patterns{"", "striped", "checked", "dotted"};

using Outlines = std::vector<Outline>;
double pick(Random& random, double low, double high) { return random.uniform(low, high); }

// Outlines around x = 0, from y = 0 downward. A sleeve ends at (x, y) from the shoulder; its cuff
// has a width.
Outlines torso(Random& random, double shoulder) {
  const double hem = shoulder + pick(random, -0.4, 0.6);
  return {unfolded({1.2, 0, shoulder, 1, shoulder - 0.4, 5, hem, pick(random, 11, 13)})};
}
Outlines with_sleeves(Random& random, double x, double y, double cuff) {
  const double shoulder = pick(random, 3.6, 4.4);
  Outlines outlines = torso(random, shoulder);
  const Outline arm{shoulder - 2,        0.6,     shoulder + 0.4, 1,  shoulder + x, 1 + y,
                    shoulder + x - cuff, 1.6 + y, shoulder - 1.2, 5.2};
  outlines.push_back(arm);
  outlines.push_back(mirrored(arm));
  return outlines;
}
Outlines shirt(Random& random) {
  return with_sleeves(random, pick(random, 3, 4.2), pick(random, 8.5, 10), 2.2);
}
Outlines t_shirt(Random& random) {
  return with_sleeves(random, pick(random, 3, 4), pick(random, 2.4, 3.4), 2.8);
}
Outlines vest(Random& random) { return torso(random, pick(random, 3.6, 4.6)); }

Outlines with_legs(Random& random, double length) {
  const double waist = pick(random, 3.2, 4.2), hip = waist + pick(random, 0.3, 0.9);
  const double ankle = hip + pick(random, -0.4, 0.8), inner = pick(random, 0.7, 1.3);
  const Outline leg{0, 0, waist, 0, hip, 3, ankle, length, inner, length, 0, 3};
  return {leg, mirrored(leg)};
}
Outlines trousers(Random& random) { return with_legs(random, pick(random, 11.5, 13)); }
Outlines shorts(Random& random) { return with_legs(random, pick(random, 6, 7)); }
Outlines skirt(Random& random) {
  const double waist = pick(random, 2.8, 3.8), hem = waist + pick(random, 1.8, 3.6);
  return {unfolded({0, 0, waist, 0, hem, pick(random, 7.5, 10)})};
}

struct Cut {
  const char* name;
  bool is_plural;
  Outlines (*cut)(Random&);
  std::size_t new_dye;  // in which no training image has this kind
};
constexpr std::array<Cut, 3> uppers{
    {{"shirt", false, &shirt, 3}, {"t-shirt", false, &t_shirt, 1}, {"vest", false, &vest, 4}}};
constexpr std::array<Cut, 3> lowers{
    {{"trousers", true, &trousers, 0}, {"shorts", true, &shorts, 7}, {"skirt", false, &skirt, 5}}};

struct Piece {
  const Cut* kind;
  std::size_t dye = 0, pattern = 0;

  bool is_new() const { return dye == kind->new_dye; }
  std::string text() const {
    const std::string name = dyes[dye].name, pattern_name = patterns[pattern];
    const char* article = kind->is_plural ? "" : name.front() == 'o' ? "an " : "a ";
    return fmt::format("{}{}{}{} {}", article, name, pattern_name.empty() ? "" : " ", pattern_name,
                       kind->name);
  }
};

Piece any_of(const std::array<Cut, 3>& kinds, Random& random) {
  return {.kind = &kinds[random.below(std::ssize(kinds))],
          .dye = static_cast<std::size_t>(random.below(std::ssize(dyes))),
          .pattern = static_cast<std::size_t>(random.below(std::ssize(patterns)))};
}

std::array<Piece, 2> any_pair(SyntheticSplit split, Random& random) {
  for (;;) {
    const Piece upper = any_of(uppers, random), lower = any_of(lowers, random);
    if (split == SyntheticSplit::test || !(upper.is_new() || lower.is_new())) return {upper, lower};
  }
}

std::string description_of(const std::array<Piece, 2>& pair) {
  return pair[0].text() + " above " + pair[1].text();
}

Random random_of(std::uint64_t seed, SyntheticSplit split, std::int64_t index) {
  return {seed, Stream::data,
          (static_cast<std::uint64_t>(split) << 40) + static_cast<std::uint64_t>(index)};
}

constexpr int side = outfit_side;
constexpr std::int64_t plane = outfit_side * outfit_side;

// Fills the mask (32, 32) of a garment, whose upper end is between these rows.
void cover(const Piece& garment, double highest, double lowest, Random& random,
           std::span<float> mask) {
  const double x = 0.5 * side + pick(random, -5, 5), y = pick(random, highest, lowest);
  for (Outline& outline : garment.kind->cut(random)) {
    for (Point& point : outline.points) point = {point.x + x, point.y + y};
    paint({outline, 1, true}, mask, side);
  }
}

// Returns whether a pattern adds its second color at a pixel.
bool is_patterned(std::size_t pattern, std::int64_t x, std::int64_t y) {
  const bool column = x % 4 < 2, row = y % 4 < 2;
  return pattern == 1 ? row : pattern == 2 ? row != column : pattern == 3 && row && column;
}

// Blends the colors of a garment into an image (3, 32, 32) where its mask is not 0.
void dye(const Piece& garment, std::span<const float> mask, Random& random,
         std::span<float> image) {
  const Dye& chosen = dyes[garment.dye];
  const std::int64_t right = random.below(4), down = random.below(4);
  const double light = pick(random, 0.85, 1.05);
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    const double shift = pick(random, -0.04, 0.04);
    for (std::int64_t i = 0; i < plane; ++i) {
      const bool second = is_patterned(garment.pattern, i % side + right, i / side + down);
      const Rgb& color = second ? chosen.second : chosen.color;
      float& pixel = image[channel * plane + i];
      pixel += mask[i] * (static_cast<float>(light * color[channel] + shift) - pixel);
    }
  }
}

// Fills an image with a gray that has a slight tint and grows lighter in a direction.
void fill_background(Random& random, std::span<float> image) {
  const double tone = pick(random, 0.4, 0.7), right = pick(random, -0.004, 0.004),
               down = pick(random, -0.004, 0.004);
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    const double tint = pick(random, -0.05, 0.05);
    for (std::int64_t i = 0; i < plane; ++i)
      image[channel * plane + i] =
          static_cast<float>(tone + tint + right * static_cast<double>(i % side) +
                             down * static_cast<double>(i / side));
  }
}

void add_noise(Random& random, std::span<float> image) {
  const double strength = pick(random, 0.01, 0.04);
  for (float& pixel : image)
    pixel = std::clamp(pixel + static_cast<float>(pick(random, -strength, strength)), 0.0f, 1.0f);
}

Outfit drawn(const std::array<Piece, 2>& pair, Random& random) {
  Outfit outfit{.image = Array({3, outfit_side, outfit_side}),
                .masks = Array::zeros({2, outfit_side, outfit_side}),
                .description = description_of(pair)};
  const auto image = outfit.image.mutable_values<float>();
  const auto masks = outfit.masks.mutable_values<float>();
  const auto upper = masks.first(plane), lower = masks.last(plane);
  cover(pair[0], 1, 3.5, random, upper);
  cover(pair[1], 16.5, 18.5, random, lower);
  fill_background(random, image);
  dye(pair[1], lower, random, image);
  dye(pair[0], upper, random, image);
  add_noise(random, image);
  return outfit;
}

}  // namespace

Outfit make_outfit(std::uint64_t seed, SyntheticSplit split, std::int64_t index) {
  Random random = random_of(seed, split, index);
  const std::array<Piece, 2> pair = any_pair(split, random);
  return drawn(pair, random);
}

bool has_new_pair(std::string_view description) {
  for (const auto& kinds : {uppers, lowers})
    for (const Cut& kind : kinds)
      for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern)
        if (description.find(Piece{&kind, kind.new_dye, pattern}.text()) != description.npos)
          return true;
  return false;
}

bool is_outfit_color(std::string_view word) {
  return std::ranges::any_of(dyes, [&](const Dye& dye) { return word == dye.name; });
}

Outfits make_outfits(std::int64_t count, std::uint64_t seed, SyntheticSplit split) {
  require(count >= 1, "make_outfits: count = {}; expected at least 1", count);
  Array images({count, 3, outfit_side, outfit_side}), masks({count, 2, outfit_side, outfit_side});
  std::vector<std::string> descriptions(count);
  // A dry run needs the descriptions, too.
  for (std::int64_t i = 0; i < count; ++i) {
    Random random = random_of(seed, split, i);
    descriptions[i] = description_of(any_pair(split, random));
  }
  float *image = images.mutable_values<float>().data(),
        *mask = masks.mutable_values<float>().data();
  parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Outfit outfit = make_outfit(seed, split, i);
      std::ranges::copy(outfit.image.values<float>(), image + i * 3 * plane);
      std::ranges::copy(outfit.masks.values<float>(), mask + i * 2 * plane);
    }
  });
  std::vector<std::int32_t> labels(count);
  std::iota(labels.begin(), labels.end(), 0);
  return {ImageDataset(images, std::move(labels)), std::move(descriptions), masks};
}

}  // namespace tapestry
