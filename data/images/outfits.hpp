#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/array.hpp"
#include "data/images/images.hpp"

// Synthetic color images of two garments each, an upper and a lower one, with descriptions.
namespace tapestry {

inline constexpr std::int64_t outfit_side = 32;  // height and width in pixels

// An image (3, 32, 32) float32 in [0, 1], its description, "a red striped shirt above blue
// trousers", and the share of each pixel that the upper and the lower garment cover, (2, 32, 32).
struct Outfit {
  Array image, masks;
  std::string description;
};

// Returns image `index` of a split, which depends only on these arguments. Each garment has a kind,
// one of eight colors, and a pattern or none. Of each kind one color is in the test split alone.
Outfit make_outfit(std::uint64_t seed, SyntheticSplit split, std::int64_t index);

// Returns whether a description has a garment in the color that its kind has in no training image.
bool has_new_pair(std::string_view description);
// Returns whether a word of a description is a color.
bool is_outfit_color(std::string_view word);

// Images of a split and their descriptions, of which each image has its index as label.
struct Outfits {
  ImageDataset images;
  std::vector<std::string> descriptions;
  Array masks;  // (count, 2, 32, 32)
};
// Returns the first images of a split. Throws std::invalid_argument for a count below 1.
Outfits make_outfits(std::int64_t count, std::uint64_t seed, SyntheticSplit split);

}  // namespace tapestry
