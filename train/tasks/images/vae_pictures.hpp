#pragma once

#include "layers/models/vae.hpp"
#include "train/draw/principal_components.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {

// (N, Z) float32: the mean of q(z | x) for every image.
Array latent_codes_of(const Vae& model, const ImageDataset& images);

// Grids of what a trained autoencoder makes of its latent space.
class VaePictures {
 public:
  VaePictures(const Vae& model, ImageData& data) : model_(model), data_(data) {}

  static std::vector<std::string> kinds();
  Sample draw(const SampleOptions& options);

 private:
  Sample prior(const SampleOptions& options);            // new images
  Sample reconstructions(const SampleOptions& options);  // images, each beside what became of it
  Sample around(const SampleOptions& options);  // an image, its reconstruction, and those of z + ε
  Sample interpolation(const SampleOptions& options);  // pairs of images, and what is between

  Tensor decoded(const Tensor& z) const;                       // (N, Z) -> (N, F)
  Tensor images_from(std::int64_t index, std::int64_t count);  // validation images (count, F)
  Tensor deviations(std::int64_t count, double scale, std::uint64_t seed);  // (count, Z)
  const PrincipalComponents& training_codes();
  bool variational() const { return model_.options.sigma != Sigma::none; }

  const Vae& model_;
  ImageData& data_;
  std::optional<PrincipalComponents> training_codes_;
};

}  // namespace tapestry
