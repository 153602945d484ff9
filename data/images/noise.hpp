#pragma once

#include <span>

#include "autograd/random.hpp"

namespace tapestry {

enum class Noise { none, gaussian, masked };

// The noise that a denoising autoencoder removes (Vincent et al. 2008, "Extracting and Composing
// Robust Features with Denoising Autoencoders").
struct ImageNoise {
  Noise kind = Noise::none;
  // Standard deviation of Gaussian noise, where 1 is the range of a pixel; or the fraction of
  // values that masking sets to 0.
  double level = 0.5;

  bool is_any() const { return kind != Noise::none; }
  bool is_possible() const { return kind != Noise::masked || level < 1; }  // some values are left
};

// Returns images (B, F) with noise: all from one generator, or each row from its own. Throws
// std::invalid_argument for another number of generators.
Array noisy(const Array& images, const ImageNoise& noise, std::span<Random> sources);

}  // namespace tapestry
