#pragma once

#include "autograd/random.hpp"
#include "data/images/images.hpp"

namespace tapestry {

// Random changes of training images that do not change what they show.
struct Augmentation {
  bool flip = false;       // mirrors each image from left to right with probability 1/2
  std::int64_t shift = 0;  // moves by up to this many pixels in each direction

  bool is_any() const { return flip || shift > 0; }
};

// Returns images (B, F) of this size, each changed at random. Pixels that a shifted image does not
// cover are 0. The draws depend only on the state of `random` and on an image's place in the batch.
// Throws std::invalid_argument for images of another size, and for a negative shift.
Array augmented(const Array& images, const ImageSize& size, const Augmentation& options,
                Random& random);

}  // namespace tapestry
