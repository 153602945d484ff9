#include "layers/models/vae.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

ConvolutionStackOptions stack_options(const VaeOptions& options) {
  return {.channels_in = options.channels_in,
          .height = options.height,
          .width = options.width,
          .channels = options.channels,
          .activation = options.activation};
}

// Returns the number of inputs of the encoder and outputs of the decoder.
std::int64_t outer_width(const VaeOptions& options) {
  return options.channels.empty() ? options.values() : stack_features(stack_options(options));
}

std::vector<std::int64_t> encoder_widths(const VaeOptions& options) {
  std::vector<std::int64_t> widths{outer_width(options)};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  return widths;
}

std::vector<std::int64_t> decoder_widths(const VaeOptions& options) {
  std::vector<std::int64_t> widths{options.latent};
  widths.insert(widths.end(), options.hidden.rbegin(), options.hidden.rend());
  widths.push_back(outer_width(options));
  return widths;
}

// Returns numbers (B, Z) from N(0, 1): all from one generator, or each row from its own. Throws
// std::invalid_argument for another number of generators.
Array standard_normal(const Shape& shape, DType dtype, std::span<Random> noise) {
  require(noise.size() == 1 || std::ssize(noise) == shape[0],
          "vae: {} sources of noise for {} images; expected 1, or one for each", noise.size(),
          shape[0]);
  const std::int64_t rows = shape[0] / std::ssize(noise);
  std::vector<Tensor> drawn;
  for (Random& source : noise) {
    Array some({rows, shape[1]}, dtype);
    source.fill_normal(some, 0, 1);
    drawn.push_back(some);
  }
  return concat(drawn, 0).value();
}

// Returns the sums of the rows of x (B, n).
std::vector<double> row_sums(const Tensor& x) {
  const Array sums = sum(x, {1}).value().to(DType::float64);
  return {sums.values<double>().begin(), sums.values<double>().end()};
}

// log Σ exp(x) of numbers that are added one by one.
class RunningLogSum {
 public:
  void add(double x) {
    if (x > largest_) {
      sum_ = sum_ * std::exp(largest_ - x) + 1;
      largest_ = x;
    } else {
      sum_ += std::exp(x - largest_);
    }
  }
  double value() const { return largest_ + std::log(sum_); }

 private:
  double largest_ = -std::numeric_limits<double>::infinity(), sum_ = 0;
};

}  // namespace

Vae::Vae(const VaeOptions& wanted, Random& init)
    : options(wanted),
      encoder(encoder_widths(options), init,
              {.activation = options.activation, .activate_last = true}),
      mean(options.hidden.back(), options.latent, init),
      decoder(decoder_widths(options), init,
              {.activation = options.activation, .activate_last = !options.channels.empty()}) {
  if (options.sigma == Sigma::per_dimension)
    log_sigma.emplace(options.hidden.back(), options.latent, init);
  else if (options.sigma == Sigma::shared)
    shared_log_sigma.emplace(Array::zeros({1}), Role::bias);
  if (options.channels.empty()) {
    decoder.layers.back().weight.role = Role::head;
  } else {
    convolutions.emplace(stack_options(options), init);
    transposed_convolutions.emplace(stack_options(options), init);
  }
}

Vae::Posterior Vae::encode(const Tensor& x) const {
  const Scope scope(path());
  const Tensor hidden = encoder.forward(convolutions ? convolutions->forward(x) : x);
  const Tensor mu = mean.forward(hidden);  // (B, Z)
  switch (options.sigma) {
    case Sigma::none:
      return {.mean = mu};
    case Sigma::per_dimension:
      return {.mean = mu, .log_sigma = log_sigma->forward(hidden)};
    case Sigma::shared:
      return {.mean = mu,
              .log_sigma = shared_log_sigma->tensor + Array::zeros(mu.shape(), mu.dtype())};
  }
  throw_unhandled("VAE's sigma");
}

Tensor Vae::sample(const Posterior& posterior, Random& noise) const {
  return sample(posterior, std::span(&noise, 1));
}

Tensor Vae::sample(const Posterior& posterior, std::span<Random> noise) const {
  if (options.sigma == Sigma::none) return posterior.mean;
  const Scope scope(path());
  const Array epsilon = standard_normal(posterior.mean.shape(), posterior.mean.dtype(), noise);
  return posterior.mean + exp(posterior.log_sigma) * epsilon;
}

Tensor Vae::decode(const Tensor& z) const {
  const Scope scope(path());
  const Tensor decoded = decoder.forward(z);
  return transposed_convolutions ? transposed_convolutions->forward(decoded) : decoded;
}

Tensor Vae::mean_of(const Tensor& decoded) const {
  switch (options.likelihood) {
    case Likelihood::bernoulli:
      return sigmoid(decoded);
    case Likelihood::gaussian:
      return decoded;
  }
  throw_unhandled("VAE's likelihood");
}

Tensor Vae::expected_image(const Tensor& z) const { return mean_of(decode(z)); }

Vae::Elbo Vae::elbo(const Tensor& x, Random& noise) const {
  return elbo(x, x, std::span(&noise, 1));
}

Vae::Elbo Vae::elbo(const Tensor& input, const Tensor& image, std::span<Random> noise) const {
  const Posterior posterior = encode(input);
  const Tensor decoded = decode(sample(posterior, noise));  // (B, F)
  const Tensor kl = options.sigma == Sigma::none
                        ? Tensor(Array::zeros({}, input.dtype()))
                        : sum(gaussian_kl(posterior.mean, posterior.log_sigma));
  return {.recon = reconstruction_error(decoded, image), .kl = kl, .decoded = decoded};
}

std::vector<double> Vae::importance_bounds(const Tensor& input, const Tensor& image,
                                           std::int64_t samples, std::span<Random> noise) const {
  require(options.sigma != Sigma::none && samples >= 1,
          "importance_bounds: {} samples; expected at least 1, and a variational autoencoder",
          samples);
  const Posterior posterior = encode(input);
  const std::vector<double> kl = row_sums(gaussian_kl(posterior.mean, posterior.log_sigma));
  std::vector<RunningLogSum> weights(kl.size());   // of p(x, z) / q(z | x)
  std::vector<double> log_ratios(kl.size(), 0.0);  // sums of log p(z)/q(z | x)
  for (std::int64_t k = 0; k < samples; ++k) {
    const Tensor z = sample(posterior, noise);
    const Tensor deviation = (z - posterior.mean) * exp(-posterior.log_sigma);
    const std::vector<double> log_ratio =
        row_sums(0.5 * (deviation * deviation - z * z) + posterior.log_sigma);
    const Tensor decoded = decode(z);
    const std::vector<double> errors =
        row_sums(options.likelihood == Likelihood::bernoulli ? binary_cross_entropy(decoded, image)
                                                             : 0.5 * squared_error(decoded, image));
    for (std::size_t i = 0; i < kl.size(); ++i) {
      weights[i].add(log_ratio[i] - errors[i]);
      log_ratios[i] += log_ratio[i];
    }
  }
  const double K = static_cast<double>(samples);
  const double constant = nats_of_pixel() * static_cast<double>(options.values());
  std::vector<double> bounds;
  for (std::size_t i = 0; i < kl.size(); ++i)
    bounds.push_back(weights[i].value() - std::log(K) - log_ratios[i] / K - kl[i] - constant);
  return bounds;
}

Tensor Vae::reconstruction_error(const Tensor& decoded, const Tensor& x) const {
  switch (options.likelihood) {
    case Likelihood::bernoulli:
      return sum(binary_cross_entropy(decoded, x));
    case Likelihood::gaussian: {
      const double constant = nats_of_pixel() * static_cast<double>(x.size());
      return 0.5 * sum(squared_error(decoded, x)) + Array::full({}, constant, x.dtype());
    }
  }
  throw_unhandled("VAE's likelihood");
}

double Vae::nats_of_pixel() const {
  const bool has_constant =
      options.likelihood == Likelihood::gaussian && options.sigma != Sigma::none;
  return has_constant ? 0.5 * std::log(2 * std::numbers::pi) : 0;
}

void Vae::fields(FieldVisitor& visit) {
  if (convolutions) visit("convolutions", *convolutions);
  visit("encoder", encoder);
  visit("mean", mean);
  if (log_sigma) visit("log_sigma", *log_sigma);
  if (shared_log_sigma) visit("log_sigma", *shared_log_sigma);
  visit("decoder", decoder);
  if (transposed_convolutions) visit("transposed_convolutions", *transposed_convolutions);
}

}  // namespace tapestry
