#include "data/images/noise.hpp"

#include <algorithm>
#include <functional>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {
namespace {

// Adds noise to images.
void add_noise(Array& images, const ImageNoise& noise, Random& source) {
  switch (noise.kind) {
    case Noise::none:
      return;
    case Noise::gaussian: {
      Array drawn(images.shape());
      source.fill_normal(drawn, 0, noise.level);
      const auto values = images.mutable_values<float>();
      std::ranges::transform(values, drawn.values<float>(), values.begin(), std::plus<>());
      return;
    }
    case Noise::masked:
      source.mask(images, images, noise.level, 1);
      return;
  }
  throw_unhandled("noise of images");
}

}  // namespace

Array noisy(const Array& images, const ImageNoise& noise, std::span<Random> sources) {
  if (!noise.is_any() || is_dry_run()) return images;
  require(sources.size() == 1 || std::ssize(sources) == images.dim(0),
          "noisy: {} sources of noise for {} images; expected 1, or one for each", sources.size(),
          images.dim(0));
  const std::int64_t values = images.size() / std::ssize(sources);  // of a generator
  Array all = images.to(DType::float32).clone();
  for (std::int64_t i = 0; i < std::ssize(sources); ++i) {
    Array some = all.part(i * values, (i + 1) * values);
    add_noise(some, noise, sources[i]);
  }
  return all.to(images.dtype());
}

}  // namespace tapestry
