#include "data/images/noise.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {
namespace {

Tensor with_noise(const Array& images, const ImageNoise& noise, Random& source) {
  Array drawn(images.shape(), images.dtype());
  switch (noise.kind) {
    case Noise::none:
      return images;
    case Noise::gaussian:
      source.fill_normal(drawn, 0, noise.level);
      return Tensor(images) + Tensor(drawn);
    case Noise::masked:
      source.mask(images, drawn, noise.level, 1);
      return drawn;
  }
  throw_unhandled("noise of images");
}

}  // namespace

Array noisy(const Array& images, const ImageNoise& noise, std::span<Random> sources) {
  if (!noise.is_any()) return images;
  require(sources.size() == 1 || std::ssize(sources) == images.dim(0),
          "noisy: {} sources of noise for {} images; expected 1, or one for each", sources.size(),
          images.dim(0));
  const std::int64_t rows = images.dim(0) / std::ssize(sources);
  std::vector<Tensor> parts;
  for (Random& source : sources) {
    const std::int64_t first = std::ssize(parts) * rows;
    parts.push_back(with_noise(slice(images, 0, first, first + rows).value(), noise, source));
  }
  return concat(parts, 0).value();
}

}  // namespace tapestry
