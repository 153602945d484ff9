#include "layers/models/vae.hpp"

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/images/vae_pictures.hpp"
#include "train/tasks/language/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::vector<std::int64_t>> channels{
    "model.channels",
    {},
    "features of 3 × 3 convolutions of stride 2 before the hidden layers; [32, 64] does well",
    {.low = 1, .high = 65536}};
const Key<std::vector<std::int64_t>> hidden{
    "model.hidden",
    {400},
    "widths of the encoder's hidden layers; the decoder mirrors them",
    {.low = 1, .high = 65536}};
const Key<std::int64_t> latent{"model.latent", 3, "dimensions of z", {.low = 1, .high = 65536}};
const Key<std::string> sigma{"model.sigma",
                             "per-dimension",
                             "log σ from a head, one learnt number, or none: a plain autoencoder",
                             {.choices = {"per-dimension", "shared", "none"}}};
const Key<std::string> likelihood{
    "model.likelihood",
    "bernoulli",
    "of a pixel: bernoulli, or gaussian of variance 1: half the squared error",
    {.choices = {"bernoulli", "gaussian"}}};
const Key<double> reconstruction_weight{
    "model.reconstruction_weight",
    0,
    "of the mean over m pixels against the mean KL over n dimensions of z; 0: m/n, the ELBO",
    {.low = 0, .high = 1e9}};
const Key<double> beta{
    "model.beta", 1, "weight of the KL term in training", {.low = 0, .high = 1e6}};
const Key<std::int64_t> kl_warmup_steps{
    "model.kl_warmup_steps", 0, "steps over which the KL term's weight rises from 0", {.low = 0}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = image_keys();
  all.insert(all.end(), {channels, hidden, latent, sigma, likelihood, reconstruction_weight, beta,
                         kl_warmup_steps, key::activation});
  return all;
}

Sigma sigma_of(const Config& config) {
  if (config[sigma] == "none") return Sigma::none;
  return config[sigma] == "shared" ? Sigma::shared : Sigma::per_dimension;
}

class VaeTask final : public Task {
 public:
  explicit VaeTask(const TaskSetup& setup)
      : config_(setup.config), data_(setup), model_(make_model()) {}

  Module& model() override { return model_; }
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().test; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Vae::Elbo elbo = model_.elbo(batch.inputs, *pass.noise);
    const double recon = elbo.recon.item(), kl = elbo.kl.item(), w = weight_of_reconstruction();
    Loss loss{w * elbo.recon + weight_of_kl(pass) * elbo.kl,
              {{"loss", {w * recon + config_[beta] * kl, batch.count}}}};
    if (variational())
      loss.averages.insert({{"recon", {recon, batch.count}}, {"kl", {kl, batch.count}}});
    if (!pass.training) {
      const Tensor error = squared_error(model_.mean_of(elbo.decoded), batch.inputs);
      loss.averages["mse"] = {sum(error).item(), static_cast<double>(error.size())};
    }
    return loss;
  }

  void derive(Metrics& metrics) const override {
    if (variational()) metrics["elbo"] = -metrics.at("recon") - metrics.at("kl");
  }

  std::vector<std::string> sample_kinds() const override { return VaePictures::kinds(); }
  Sample sample(const SampleOptions& options) override {
    return VaePictures(model_, data_).draw(options);
  }

  Latent latent_codes() override {
    Latent codes{.class_names = data_.class_names()};
    for (const auto& [name, images] :
         {std::pair{"train", &data_.splits().train}, std::pair{"validation", &data_.splits().test}})
      codes.splits.push_back({name, latent_codes_of(model_, *images), images->labels()});
    return codes;
  }

  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

 private:
  Vae make_model() const {
    config_.expect(!config_[hidden].empty(), hidden, "expected at least one layer");
    config_.expect(sigma_of(config_) != Sigma::none || config_[beta] == 1, beta,
                   "a plain autoencoder has no KL term to weigh");
    Random init(static_cast<std::uint64_t>(config_[key::seed]), Stream::init);
    return Vae({.height = data_.height(),
                .width = data_.width(),
                .channels = config_[channels],
                .hidden = config_[hidden],
                .latent = config_[latent],
                .sigma = sigma_of(config_),
                .likelihood = config_[likelihood] == "gaussian" ? Likelihood::gaussian
                                                                : Likelihood::bernoulli,
                .activation = activation_of(config_)},
               init);
  }

  bool variational() const { return model_.options.sigma != Sigma::none; }

  // With w the config's weight, m pixels and n dimensions, training minimises n times
  // w · (the mean error over m) + β · (the mean KL over n): of the sums, w n/m · recon + β · kl.
  double weight_of_reconstruction() const {
    const double w = config_[reconstruction_weight];
    return w == 0 ? 1
                  : w * static_cast<double>(config_[latent]) /
                        static_cast<double>(model_.options.pixels());
  }

  // β, after its warm-up, with which evaluation, and so the choice of the best model, does without.
  double weight_of_kl(const Pass& pass) const {
    const std::int64_t warmup = config_[kl_warmup_steps];
    const double risen = pass.training && pass.step < warmup
                             ? static_cast<double>(pass.step) / static_cast<double>(warmup)
                             : 1.0;
    return config_[beta] * risen;
  }

  Config config_;
  ImageData data_;
  Vae model_;
};

const RegisterTask registered("vae", {"an autoencoder of images, variational or plain", keys(),
                                      [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                        return std::make_unique<VaeTask>(setup);
                                      }});

}  // namespace
}  // namespace tapestry
