#include "data/images/augmentation.hpp"

#include <algorithm>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

struct Change {
  bool mirrored = false;
  std::int64_t down = 0, right = 0;  // pixels
};

Change draw(const Augmentation& options, Random& random) {
  const auto distance = [&] { return random.below(2 * options.shift + 1) - options.shift; };
  return {
      .mirrored = random.below(2) == 1 && options.flip, .down = distance(), .right = distance()};
}

// Writes a plane (height, width) with this change to `to`, which is 0.
void apply(const Change& change, std::span<const float> from, std::span<float> to,
           std::int64_t height, std::int64_t width) {
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t row = y - change.down, left = x - change.right;
      if (row < 0 || row >= height || left < 0 || left >= width) continue;
      to[y * width + x] = from[row * width + (change.mirrored ? width - 1 - left : left)];
    }
}

}  // namespace

Array augmented(const Array& images, const ImageSize& size, const Augmentation& options,
                Random& random) {
  require(images.rank() == 2 && images.dim(1) == size.values() && options.shift >= 0,
          "augmented: images {} and shift {}; expected (B, {}) and at least 0",
          to_string(images.shape()), options.shift, size.values());
  Array changed = Array::zeros(images.shape());
  if (is_dry_run()) return changed;
  const auto from = images.values<float>();
  const auto to = changed.mutable_values<float>();
  const std::int64_t plane = size.height * size.width;
  for (std::int64_t image = 0; image < images.dim(0); ++image) {
    const Change change = draw(options, random);
    for (std::int64_t channel = 0; channel < size.channels; ++channel) {
      const std::int64_t begin = (image * size.channels + channel) * plane;
      apply(change, from.subspan(begin, plane), to.subspan(begin, plane), size.height, size.width);
    }
  }
  return changed;
}

}  // namespace tapestry
