#pragma once

#include <optional>

#include "layers/mlp.hpp"

namespace tapestry {

enum class Sigma { per_dimension, shared };
enum class Likelihood { bernoulli, gaussian };

struct VaeOptions {
  std::int64_t inputs = 784;              // F, the pixels of an image
  std::vector<std::int64_t> hidden{400};  // of the encoder; the decoder mirrors it
  std::int64_t latent = 20;               // Z
  Sigma sigma = Sigma::per_dimension;     // shared: one learnt log σ for all images and dimensions
  Likelihood likelihood = Likelihood::bernoulli;
  Activation activation = Activation::relu;
};

// A variational autoencoder (Kingma & Welling 2013, arXiv 1312.6114) of multilayer perceptrons.
class Vae final : public Module {
 public:
  VaeOptions options;
  Mlp encoder;                                // (B, F) -> (B, hidden)
  Linear mean;                                // -> (B, Z)
  std::optional<Linear> log_sigma;            // -> (B, Z)
  std::optional<Parameter> shared_log_sigma;  // (1)
  Mlp decoder;                                // (B, Z) -> (B, F)

  Vae(const VaeOptions& wanted, Random& init);

  struct Posterior {
    Tensor mean, log_sigma;  // (B, Z) each
  };
  Posterior encode(const Tensor& x) const;  // x (B, F)

  // z = μ + σ ⊙ ε with ε ~ N(0, 1) (ibid., eq. 10).
  Tensor sample(const Posterior& posterior, Random& noise) const;

  // (B, Z) -> (B, F): logits under a Bernoulli likelihood, means under a Gaussian one.
  Tensor decode(const Tensor& z) const;
  Tensor expected_image(const Tensor& z) const;  // (B, F): the mean of p(x | z)

  // Sums over the batch, in nats: recon = -Σ log p(x | z), kl = Σ KL(q(z | x) ‖ N(0, 1)). The
  // negative ELBO is their sum. The Gaussian has variance 1 and counts its ½ log 2π a pixel.
  struct Elbo {
    Tensor recon, kl;
  };
  Elbo elbo(const Tensor& x, Random& noise) const;

  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
