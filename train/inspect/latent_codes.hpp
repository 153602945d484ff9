#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "train/plot/figure.hpp"

namespace tapestry {

// The latent codes of the images of one split: z (N, Z) float32, and the classes of the images.
struct LatentSplit {
  std::string name;
  Array z;
  std::vector<std::int32_t> classes;
};
struct LatentCodes {
  std::vector<LatentSplit> splits{};
  std::vector<std::string> class_names{};
};

// Returns a line for each image: its number in its split, the split, its class and z1, z2, …
std::string latent_csv(const LatentCodes& latent);

// Returns the codes in two or three dimensions, a cloud for each class: along their principal
// components if they have more than three. Shows at most `most` images, chosen at random.
Scatter latent_scatter(const LatentCodes& latent, std::int64_t most = 5000);

}  // namespace tapestry
