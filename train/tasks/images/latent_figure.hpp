#pragma once

#include "train/inspect/inspector.hpp"

namespace tapestry {

// A line for each image: its number in its split, the split, its class and z1, z2, …
std::string latent_csv(const LatentCodes& latent);

// The codes in two dimensions or three, a cloud a class: along their principal components where
// they have more than three. Of at most so many images, chosen at random.
Scatter latent_scatter(const LatentCodes& latent, std::int64_t most = 5000);

}  // namespace tapestry
