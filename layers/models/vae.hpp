#pragma once

#include <optional>
#include <span>

#include "layers/convolution_stack.hpp"
#include "layers/mlp.hpp"

namespace tapestry {

enum class Sigma { none, per_dimension, shared };
enum class Likelihood { bernoulli, gaussian };

struct VaeOptions {
  std::int64_t height = 28, width = 28;   // of an image; F = height · width pixels
  std::vector<std::int64_t> channels{};   // of convolutions before the encoder; empty: none
  std::vector<std::int64_t> hidden{400};  // of the encoder; the decoder mirrors it all
  std::int64_t latent = 20;               // Z
  // shared: one learnt log σ for all images and dimensions; none: a plain autoencoder, z = μ.
  Sigma sigma = Sigma::per_dimension;
  Likelihood likelihood = Likelihood::bernoulli;
  Activation activation = Activation::relu;

  std::int64_t pixels() const { return height * width; }
};

// A variational autoencoder (Kingma & Welling 2013, arXiv 1312.6114), or a plain one, of multilayer
// perceptrons, and of convolutions where there are channels.
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
    Tensor mean{}, log_sigma{};  // (B, Z) each; no log σ in a plain autoencoder
  };
  Posterior encode(const Tensor& x) const;  // x (B, F)

  // z = μ + σ ⊙ ε with ε ~ N(0, 1) (ibid., eq. 10); μ in a plain autoencoder. Of one source of
  // noise the rows are drawn one after the other; of B, each from its own.
  Tensor sample(const Posterior& posterior, Random& noise) const;
  Tensor sample(const Posterior& posterior, std::span<Random> noise) const;

  // (B, Z) -> (B, F): logits under a Bernoulli likelihood, means under a Gaussian one.
  Tensor decode(const Tensor& z) const;
  Tensor mean_of(const Tensor& decoded) const;   // (B, F): the mean of p(x | z)
  Tensor expected_image(const Tensor& z) const;  // (B, F): the same of decode(z)

  // Sums over the batch, in nats: recon = -Σ log p(x | z), kl = Σ KL(q(z | x) ‖ N(0, 1)), which is
  // 0 in a plain autoencoder. The negative ELBO is their sum. The Gaussian has variance 1, so that
  // recon is half the squared error, with its ½ log 2π a pixel unless the autoencoder is plain.
  struct Elbo {
    Tensor recon, kl;
    Tensor decoded;  // (B, F)
  };
  Elbo elbo(const Tensor& x, Random& noise) const;
  Elbo elbo(const Tensor& x, std::span<Random> noise) const;  // one, or B, as in sample

  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
