#include "layers/vae.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::vector<std::int64_t> encoder_widths(const VaeOptions& options) {
  std::vector<std::int64_t> widths{options.inputs};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  return widths;
}

std::vector<std::int64_t> decoder_widths(const VaeOptions& options) {
  std::vector<std::int64_t> widths{options.latent};
  widths.insert(widths.end(), options.hidden.rbegin(), options.hidden.rend());
  widths.push_back(options.inputs);
  return widths;
}

}  // namespace

Vae::Vae(const VaeOptions& wanted, Random& init)
    : options(wanted),
      encoder(encoder_widths(options), init, {options.activation, true}),
      mean(options.hidden.back(), options.latent, init),
      decoder(decoder_widths(options), init, {options.activation, false}) {
  if (options.sigma == Sigma::per_dimension)
    log_sigma.emplace(options.hidden.back(), options.latent, init);
  else
    shared_log_sigma.emplace(Array::zeros({1}), Role::bias);
  parameters();  // names the modules
}

Vae::Posterior Vae::encode(const Tensor& x) const {
  const Scope scope(path());
  const Tensor hidden = encoder.forward(x);  // (B, hidden)
  const Tensor mu = mean.forward(hidden);    // (B, Z)
  if (log_sigma) return {mu, log_sigma->forward(hidden)};
  return {mu, shared_log_sigma->tensor + Array::zeros(mu.shape(), mu.dtype())};
}

Tensor Vae::sample(const Posterior& posterior, Random& noise) const {
  const Scope scope(path());
  Array epsilon(posterior.mean.shape(), posterior.mean.dtype());
  noise.fill_normal(epsilon, 0, 1);
  return posterior.mean + exp(posterior.log_sigma) * epsilon;
}

Tensor Vae::decode(const Tensor& z) const {
  const Scope scope(path());
  return decoder.forward(z);
}

Tensor Vae::expected_image(const Tensor& z) const {
  return options.likelihood == Likelihood::bernoulli ? sigmoid(decode(z)) : decode(z);
}

Vae::Elbo Vae::elbo(const Tensor& x, Random& noise) const {
  const Posterior posterior = encode(x);
  const Tensor decoded = decode(sample(posterior, noise));  // (B, F)
  const Tensor kl = sum(gaussian_kl(posterior.mean, posterior.log_sigma));
  if (options.likelihood == Likelihood::bernoulli)
    return {sum(binary_cross_entropy(decoded, x)), kl};
  const double constant = 0.5 * std::log(2 * std::numbers::pi) * static_cast<double>(x.size());
  return {0.5 * sum(squared_error(decoded, x)) + Array::full({}, constant, x.dtype()), kl};
}

void Vae::fields(FieldVisitor& visit) {
  visit("encoder", encoder);
  visit("mean", mean);
  if (log_sigma) visit("log_sigma", *log_sigma);
  if (shared_log_sigma) visit("log_sigma", *shared_log_sigma);
  visit("decoder", decoder);
}

}  // namespace tapestry
