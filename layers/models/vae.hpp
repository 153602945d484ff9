#pragma once

#include <optional>
#include <span>

#include "layers/convolution.hpp"
#include "layers/mlp.hpp"

namespace tapestry {

enum class Sigma { none, per_dimension, shared };
enum class Likelihood { bernoulli, gaussian };

struct VaeOptions {
  // Size of an image, channels_in 1 (gray) or 3 (color): F = channels_in · height · width values.
  std::int64_t channels_in = 1, height = 28, width = 28;
  // Channels of the convolutions before the encoder; empty: none.
  std::vector<std::int64_t> channels{};
  // Widths of the encoder, at least one; the decoder mirrors them.
  std::vector<std::int64_t> hidden{400};
  std::int64_t latent = 20;  // Z
  // shared: one learned log σ for all images and dimensions; none: a plain autoencoder, z = μ.
  Sigma sigma = Sigma::per_dimension;
  Likelihood likelihood = Likelihood::bernoulli;
  Activation activation = Activation::relu;

  std::int64_t values() const { return channels_in * height * width; }  // F
};

// A variational autoencoder (Kingma & Welling 2013, arXiv 1312.6114) or a plain one, of multilayer
// perceptrons, and of convolutions if channels are given.
class Vae final : public Module {
 public:
  VaeOptions options;
  std::optional<ConvolutionStack> convolutions;  // (B, F) -> (B, features)
  Mlp encoder;                                   // (B, F or features) -> (B, hidden)
  Linear mean;                                   // -> (B, Z)
  std::optional<Linear> log_sigma;               // -> (B, Z)
  std::optional<Parameter> shared_log_sigma;     // (1)
  Mlp decoder;                                   // (B, Z) -> (B, F or features)
  std::optional<TransposedConvolutionStack> transposed_convolutions;  // -> (B, F)

  Vae(const VaeOptions& wanted, Random& init);

  struct Posterior {
    Tensor mean{}, log_sigma{};  // (B, Z) each; log σ is empty in a plain autoencoder
  };
  // Returns the parameters of q(z | x): x (B, F) -> (B, Z) each.
  Posterior encode(const Tensor& x) const;

  // Returns z = μ + σ ⊙ ε (B, Z) with ε ~ N(0, 1) (ibid., eq. 10), or μ in a plain autoencoder.
  // With several generators, one for each image, row b is drawn from noise[b]. Throws
  // std::invalid_argument for another number of generators.
  Tensor sample(const Posterior& posterior, Random& noise) const;
  Tensor sample(const Posterior& posterior, std::span<Random> noise) const;

  // Returns logits for a Bernoulli likelihood, means for a Gaussian one: (B, Z) -> (B, F).
  Tensor decode(const Tensor& z) const;
  Tensor mean_of(const Tensor& decoded) const;   // returns the mean of p(x | z), (B, F)
  Tensor expected_image(const Tensor& z) const;  // returns mean_of(decode(z))

  // The terms of the negative ELBO in nats, summed over the batch: recon = -Σ log p(x | z), and
  // kl = Σ KL(q(z | x) ‖ N(0, 1)), which is 0 in a plain autoencoder. The Gaussian has variance 1:
  // recon is half the squared error, plus ½ log 2π for each pixel unless the autoencoder is plain.
  struct Elbo {
    Tensor recon, kl;
    Tensor decoded;  // (B, F)
  };
  Elbo elbo(const Tensor& x, Random& noise) const;
  // Returns the terms for an input that differs from the image that is reconstructed, such as a
  // noisy one: `input`, `image` (B, F); noise as in sample().
  Elbo elbo(const Tensor& input, const Tensor& image, std::span<Random> noise) const;

  // Returns for each image a lower bound of log p(x) in nats, (B): the importance-weighted one
  // (Burda et al. 2016, arXiv 1509.00519, eq. 8) of this number of samples of z, of which the first
  // are those of elbo(). Their mean of log p(z)/q(z | x) is replaced by its expectation, -kl, so
  // that the bound of one sample is the ELBO. Throws std::invalid_argument for a plain autoencoder.
  std::vector<double> importance_bounds(const Tensor& input, const Tensor& image,
                                        std::int64_t samples, std::span<Random> noise) const;

  // Returns recon of Elbo, for any `decoded` (B, F) as decode() returns it.
  Tensor reconstruction_error(const Tensor& decoded, const Tensor& x) const;

  void fields(FieldVisitor& visit) override;

 private:
  double nats_of_pixel() const;  // returns the constant of a pixel in recon of Elbo
};

}  // namespace tapestry
