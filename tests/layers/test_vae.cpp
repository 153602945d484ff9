#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "autograd/ops.hpp"
#include "layers/models/vae.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
std::vector<LayerRow> vae_layers() {
  Random r = init();
  std::vector<LayerRow> rows;
  for (const auto& [sigma, sigma_name] : {std::pair{Sigma::per_dimension, "σ per dimension"},
                                          {Sigma::shared, "shared σ"},
                                          {Sigma::none, "no σ"}})
    for (const auto& [likelihood, likelihood_name] :
         {std::pair{Likelihood::bernoulli, "Bernoulli"}, {Likelihood::gaussian, "Gaussian"}})
      rows.push_back(make_row(fmt::format("Vae: {}, {}", sigma_name, likelihood_name),
                              Vae({.height = 1,
                                   .width = 5,
                                   .hidden = {4, 3},
                                   .latent = 2,
                                   .sigma = sigma,
                                   .likelihood = likelihood},
                                  r),
                              [](const Vae& model, In in) {
                                Random noise(1, Stream::data);
                                const Vae::Elbo elbo = model.elbo(in[0], noise);
                                return elbo.recon + 0.7 * elbo.kl;
                              },
                              {pixels({3, 5})}));
  rows.push_back(make_row("Vae: convolutional",
                          Vae({.height = 5,
                               .width = 3,
                               .channels = {2, 3},
                               .hidden = {4},
                               .latent = 2,
                               .activation = Activation::gelu},
                              r),
                          [](const Vae& model, In in) {
                            Random noise(1, Stream::data);
                            const Vae::Elbo elbo = model.elbo(in[0], noise);
                            return elbo.recon + elbo.kl;
                          },
                          {pixels({2, 15})}));
  return rows;
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: recon and kl of a VAE have values computed by hand, in nats") {
  const double ln2 = std::numbers::ln2, ln3 = std::log(3.0);
  for (const DType dtype : {f32, f64}) {
    Random r = init(), noise(0, Stream::data);
    VaeOptions options{.height = 1, .width = 2, .hidden = {1}, .latent = 2};
    const auto make = [&] {
      Vae vae(options, r);
      for (Parameter* parameter : vae.parameters())
        parameter->value().copy_from(Array::zeros(parameter->tensor.shape()));
      set(vae.mean.bias, {1, 0});                             // μ
      if (vae.log_sigma) set(vae.log_sigma->bias, {0, ln2});  // σ = 1, 2
      set(vae.decoder.layers[1].bias, {0, ln3});              // p = 1/2, 3/4
      vae.convert(dtype);
      return vae;
    };
    const Tensor x = Array::of<double>({1, 0, 0, 1}, {2, 2}).to(dtype);
    const Vae::Elbo bernoulli = make().elbo(x, noise);
    // an image: ½ (1 + 1 - 1) - 0 and ½ (0 + 4 - 1) - ln 2
    CHECK(bernoulli.kl.item() == doctest::Approx(2 * (2 - ln2)));
    // (1, 0): ln 2 + ln 4; (0, 1): ln 2 + ln (4/3)
    CHECK(bernoulli.recon.item() == doctest::Approx(6 * ln2 - ln3));
    const std::vector<double> p =
        doubles(make().expected_image(Array::zeros({1, 2}, dtype)).value());
    CHECK(p[0] == doctest::Approx(0.5));
    CHECK(p[1] == doctest::Approx(0.75));

    options.likelihood = Likelihood::gaussian;
    const Vae::Elbo gaussian = make().elbo(x, noise);
    CHECK(gaussian.kl.item() == doctest::Approx(2 * (2 - ln2)));
    const double squares = 1 + ln3 * ln3 + 0 + (1 - ln3) * (1 - ln3);
    CHECK(gaussian.recon.item() == doctest::Approx(squares / 2 + 4 * 0.9189385332046727));
    CHECK(make().expected_image(Array::zeros({1, 2}, dtype)).value().to(f64).values<double>()[1] ==
          doctest::Approx(ln3));

    options.sigma = Sigma::shared;
    Vae shared = make();
    set(*shared.shared_log_sigma, {ln2});
    CHECK(shared.encode(x).log_sigma.shape() == Shape{2, 2});
    CHECK(shared.elbo(x, noise).kl.item() == doctest::Approx(2 * (0.5 + 3 - 2 * ln2)));
  }
}

TEST_CASE("layers: a VAE's sample is μ + σ ε, and its elbo is the sum of its terms") {
  Random r = init();
  Vae vae({.height = 1, .width = 5, .hidden = {4}, .latent = 2}, r);
  randomised(vae, f64);
  const Tensor x = pixels({3, 5});
  const Vae::Posterior posterior = vae.encode(x);
  Array epsilon({3, 2}, f64);
  Random(7, Stream::data).fill_normal(epsilon, 0, 1);
  Random again(7, Stream::data), once_more(7, Stream::data);
  const Tensor z = posterior.mean + exp(posterior.log_sigma) * epsilon;
  CHECK(distance(vae.sample(posterior, again).value(), z.value()) <= 1e-15);
  const Vae::Elbo elbo = vae.elbo(x, once_more);
  CHECK(elbo.recon.item() == sum(binary_cross_entropy(vae.decode(z), x)).item());
  CHECK(elbo.kl.item() == sum(gaussian_kl(posterior.mean, posterior.log_sigma)).item());
}

TEST_CASE("layers: a plain autoencoder has no noise, no KL and no log σ") {
  Random r = init(), noise(7, Stream::data);
  Vae model({.height = 1, .width = 5, .hidden = {4}, .latent = 2, .sigma = Sigma::none}, r);
  randomised(model, f64);
  for (const std::string& name : names(model)) CHECK(name.find("sigma") == std::string::npos);
  const Tensor x = pixels({3, 5});
  const Vae::Posterior posterior = model.encode(x);
  CHECK(same_bits(model.sample(posterior, noise).value(), posterior.mean.value()));
  const Vae::Elbo elbo = model.elbo(x, noise);
  CHECK(elbo.kl.item() == 0);
  CHECK(elbo.recon.item() == sum(binary_cross_entropy(model.decode(posterior.mean), x)).item());
  CHECK(distance(model.mean_of(elbo.decoded).value(),
                 model.expected_image(posterior.mean).value()) == 0);
}

// With a linear decoder and a Gaussian likelihood of variance 1, p(x) = N(b, W Wᵀ + I).
TEST_CASE("layers: importance-weighted bounds rise from the ELBO to log p(x), which is known") {
  Random r = init();
  VaeOptions options{.height = 1,
                     .width = 2,
                     .hidden = {1},
                     .latent = 1,
                     .likelihood = Likelihood::gaussian,
                     .activation = Activation::none};
  Vae vae(options, r);
  for (Parameter* parameter : vae.parameters())
    parameter->value().copy_from(Array::zeros(parameter->tensor.shape()));
  set(vae.decoder.layers[0].weight, {1});
  set(vae.decoder.layers[1].weight, {1, 2});  // W
  vae.convert(f64);
  const Tensor x = Array::of<double>({1, 1}, {1, 2});
  // W Wᵀ + I = (2 2; 2 5): its determinant is 6, and xᵀ (5 -2; -2 2) x / 6 = 3/6.
  const double exact = -std::log(2 * std::numbers::pi) - 0.5 * std::log(6) - 0.25;
  const auto mean_bound = [&](std::int64_t samples) {
    double total = 0;
    constexpr int repeated = 400;
    for (int seed = 0; seed < repeated; ++seed) {
      Random noise(seed, Stream::sample), again(seed, Stream::sample);
      const double bound = vae.importance_bounds(x, x, samples, std::span(&noise, 1)).at(0);
      if (samples == 1) {
        const Vae::Elbo elbo = vae.elbo(x, again);
        CHECK(bound == doctest::Approx(-elbo.recon.item() - elbo.kl.item()).epsilon(1e-12));
      }
      total += bound;
    }
    return total / repeated;
  };
  // E[recon] = ln 2π + ½ E[(1 - z)² + (1 - 2z)²] = ln 2π + 3.5, and q is the prior: kl = 0.
  const double one = mean_bound(1), five = mean_bound(5), many = mean_bound(500);
  CHECK(one == doctest::Approx(-std::log(2 * std::numbers::pi) - 3.5).epsilon(0.15));
  CHECK(one < five - 0.5);
  CHECK(five < many - 0.1);
  CHECK(many == doctest::Approx(exact).epsilon(0.02));
  CHECK_THROWS_AS(vae.importance_bounds(x, x, 0, {}), std::invalid_argument);
}

TEST_CASE("layers: importance-weighted bounds of a batch are those of its images alone") {
  for (const Likelihood likelihood : {Likelihood::bernoulli, Likelihood::gaussian}) {
    Random r = init();
    Vae vae({.height = 1, .width = 5, .hidden = {4}, .latent = 2, .likelihood = likelihood}, r);
    randomised(vae, f64);
    const Tensor image = pixels({3, 5}), input = 0.5 * image;
    const auto sources = [](std::uint64_t first, std::uint64_t last) {
      std::vector<Random> noise;
      for (std::uint64_t i = first; i < last; ++i) noise.emplace_back(3, Stream::eval, i);
      return noise;
    };
    std::vector<Random> all = sources(0, 3);
    const std::vector<double> together = vae.importance_bounds(input, image, 4, all);
    REQUIRE(together.size() == 3);
    double elbo = 0;
    for (std::uint64_t i = 0; i < 3; ++i) {
      std::vector<Random> own = sources(i, i + 1), once_more = sources(i, i + 1);
      const auto row = [&](const Tensor& x) { return slice(x, 0, i, i + 1); };
      CHECK(vae.importance_bounds(row(input), row(image), 4, own).at(0) ==
            doctest::Approx(together[i]).epsilon(1e-12));
      const Vae::Elbo terms = vae.elbo(row(input), row(image), once_more);
      elbo -= terms.recon.item() + terms.kl.item();
    }
    std::vector<Random> first = sources(0, 3);
    const std::vector<double> one = vae.importance_bounds(input, image, 1, first);
    CHECK(one[0] + one[1] + one[2] == doctest::Approx(elbo).epsilon(1e-12));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
