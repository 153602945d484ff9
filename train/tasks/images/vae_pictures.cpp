#include "train/tasks/images/vae_pictures.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/shaping.hpp"
#include "train/draw/picture.hpp"

namespace tapestry {
namespace {

// Images (N, F) as N pictures, a row of `columns`.
Sample grid(const Tensor& images, const VaeOptions& size, std::int64_t columns) {
  const Array pixels = images.value().to(DType::float32);
  const std::int64_t N = pixels.size() / size.pixels();
  return {"", picture_grid(pixels.reshaped({N, size.height, size.width}), columns)};
}

// (steps, 1), from 0 to 1.
Array equal_steps(std::int64_t steps) {
  std::vector<float> shares;
  for (std::int64_t i = 0; i < steps; ++i)
    shares.push_back(static_cast<float>(i) / static_cast<float>(steps - 1));
  return Array::of(shares, {steps, 1});
}

// Images that fit into memory together, whatever their size.
std::int64_t at_once(const Vae& model) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 18) / model.options.pixels());
}

// fn of x (N, ...), `most` rows at a time.
template <class Fn>
Array in_parts(const Tensor& x, std::int64_t most, Fn fn) {
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < x.dim(0); first += most)
    parts.push_back(fn(slice(x, 0, first, std::min(x.dim(0), first + most))));
  return concat(parts, 0).value();
}

}  // namespace

Array latent_codes_of(const Vae& model, const ImageDataset& images) {
  return in_parts(images.images(), at_once(model),
                  [&](const Tensor& some) { return model.encode(some).mean; });
}

std::vector<std::string> VaePictures::kinds() {
  return {"prior", "reconstructions", "around", "interpolation"};
}

Sample VaePictures::draw(const SampleOptions& options) {
  if (options.kind == "reconstructions") return reconstructions(options);
  if (options.kind == "around") return around(options);
  if (options.kind == "interpolation") return interpolation(options);
  return prior(options);
}

Tensor VaePictures::decoded(const Tensor& z) const {
  return in_parts(z, at_once(model_),
                  [&](const Tensor& some) { return model_.expected_image(some); });
}

Tensor VaePictures::images_from(std::int64_t index, std::int64_t count) {
  return data_.validation(index, count).inputs;
}

// From N(0, scale²). A plain autoencoder has no prior: the covariance of its training images' codes
// stands for the identity, and their mean for 0.
Tensor VaePictures::deviations(std::int64_t count, double scale, std::uint64_t seed) {
  Random random(seed, Stream::sample);
  Array epsilon({count, model_.options.latent});
  random.fill_normal(epsilon, 0, scale);
  if (variational()) return epsilon;
  return matmul(epsilon, training_codes().factor.to(DType::float32));
}

const PrincipalComponents& VaePictures::training_codes() {
  if (!training_codes_)
    training_codes_ = principal_components(latent_codes_of(model_, data_.splits().train));
  return *training_codes_;
}

Sample VaePictures::prior(const SampleOptions& options) {
  const std::int64_t count = options.count > 0 ? options.count : 64;
  Tensor z = deviations(count, options.temperature, options.seed);
  if (!variational()) z = z + training_codes().mean.to(DType::float32);
  const double side = std::ceil(std::sqrt(static_cast<double>(count)));
  return grid(decoded(z), model_.options, static_cast<std::int64_t>(side));
}

Sample VaePictures::reconstructions(const SampleOptions& options) {
  const Tensor x = images_from(options.index, options.count > 0 ? options.count : 32);
  const std::int64_t N = x.dim(0), F = x.dim(1);
  const Tensor again = decoded(model_.encode(x).mean);
  return grid(concat({reshape(x, {N, 1, F}), reshape(again, {N, 1, F})}, 1), model_.options, 8);
}

Sample VaePictures::around(const SampleOptions& options) {
  const std::int64_t count = options.count > 0 ? options.count : 62;
  const Tensor x = images_from(options.index, 1), z = model_.encode(x).mean;
  const Tensor others = z + deviations(count, options.spread, options.seed);
  return grid(concat({x, decoded(concat({z, others}, 0))}, 0), model_.options, 8);
}

// A row a pair: the two images at its ends, and between them what z decodes to in equal steps from
// one's code to the other's.
Sample VaePictures::interpolation(const SampleOptions& options) {
  constexpr std::int64_t steps = 8;
  const Tensor x = images_from(options.index, 2 * (options.count > 0 ? options.count : 8));
  const std::int64_t pairs = x.dim(0) / 2, F = x.dim(1), Z = model_.options.latent;
  expect_input(pairs > 0, "--index {}: expected two images from there on", options.index);
  const Tensor ends = slice(x, 0, 0, 2 * pairs);
  const Tensor codes = reshape(model_.encode(ends).mean, {pairs, 2, Z});
  const Tensor from = slice(codes, 1, 0, 1), to = slice(codes, 1, 1, 2);  // (pairs, 1, Z)
  const Tensor z = from + equal_steps(steps) * (to - from);               // (pairs, steps, Z)
  const Tensor between = decoded(reshape(z, {pairs * steps, Z}));
  const Tensor both = reshape(ends, {pairs, 2, F});
  const Tensor rows =
      concat({slice(both, 1, 0, 1), reshape(between, {pairs, steps, F}), slice(both, 1, 1, 2)}, 1);
  return grid(rows, model_.options, steps + 2);
}

}  // namespace tapestry
