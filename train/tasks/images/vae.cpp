#include "train/tasks/images/vae.hpp"

#include "autograd/counted.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::vector<std::int64_t>> channels{
    "model.channels",
    {},
    "channels of 3 × 3 convolutions of stride 2 before the hidden layers, such as [32, 64]",
    {.low = 1, .high = 65536}};
const Key<std::vector<std::int64_t>> hidden{
    "model.hidden",
    {400},
    "widths of the encoder's hidden layers; the decoder mirrors them",
    {.low = 1, .high = 65536}};
const Key<std::int64_t> latent{
    "model.latent",
    3,
    "latent dimensions",
    {.low = 1, .high = 65536, .also_called = {"latent_dim", "latent_size", "z_dim"}}};
const Choice<Sigma> sigma{
    "model.sigma",
    Sigma::per_dimension,
    "log σ of the code: predicted per dimension, one learned number, or none (a plain autoencoder)",
    {{"per-dimension", Sigma::per_dimension}, {"shared", Sigma::shared}, {"none", Sigma::none}}};
const Choice<Likelihood> likelihood{
    "model.likelihood",
    Likelihood::bernoulli,
    "likelihood of a pixel: bernoulli, or gaussian with variance 1 (half the squared error)",
    {{"bernoulli", Likelihood::bernoulli}, {"gaussian", Likelihood::gaussian}}};
const Key<double> reconstruction_weight{
    "model.reconstruction_weight",
    0,
    "weight of the reconstruction error (mean over m pixels) relative to the KL term (mean over n "
    "dimensions); 0: m/n, the ELBO",
    {.low = 0, .high = 1e9}};
const Condition variational = sigma.is(Sigma::per_dimension, Sigma::shared);
const Key<double> beta{"model.beta",
                       1,
                       "weight of the KL term in training",
                       {.low = 0, .high = 1e6, .used_if = {variational}}};
const Key<std::int64_t> kl_warmup_steps{"model.kl_warmup_steps",
                                        0,
                                        "steps in which the weight of the KL term rises from 0",
                                        {.low = 0, .used_if = {variational}}};

std::vector<KeyInfo> vae_keys() {
  std::vector<KeyInfo> all = image_keys();
  all.insert(all.end(), {channels, hidden, latent, sigma, likelihood, reconstruction_weight, beta,
                         kl_warmup_steps, key::activation});
  return all;
}

Vae make_vae(const Config& config, const ImageData& images) {
  config.expect(!config[hidden].empty(), hidden, "expected at least one layer");
  const auto [C, H, W] = images.size();
  const VaeOptions options{.channels_in = C,
                           .height = H,
                           .width = W,
                           .channels = config[channels],
                           .hidden = config[hidden],
                           .latent = config[latent],
                           .sigma = config[sigma],
                           .likelihood = config[likelihood],
                           .activation = config[key::activation]};
  return initialized(config, [&](Random& init) { return Vae(options, init); });
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  return fmt::format("a {}{} autoencoder of images with {}",
                     config[channels].empty() ? "" : "convolutional ",
                     config[sigma] == Sigma::none ? "plain" : "variational",
                     counted(config[latent], "latent dimension"));
}

std::vector<Recognized> recognize_for_vae(const std::string& path) {
  return {recognized_as("vae", "a folder of images", [&](Recognized& found) {
    recognize_images(found, path, false);
    found.fit = Recognized::Fit::possible;  // images with classes are meant to be classified
    found.base = "clothes-vae";
  })};
}

TaskSpec vae_spec() {
  using enum MetricInfo::Better;
  return {
      .name = "vae",
      .help = "an autoencoder of images, variational or plain",
      .describe = description,
      .keys = vae_keys(),
      .make = make_task_of<VaeTask>,
      .detect = detect_images,
      .recognize = recognize_for_vae,
      .metrics = {{.name = "loss",
                   .unit = "nats",
                   .better = lower,
                   .meaning = "the weighted sum of recon and kl",
                   .settings = {beta.name, reconstruction_weight.name, likelihood.name}},
                  {.name = "recon",
                   .unit = "nats",
                   .better = lower,
                   .meaning = "the reconstruction error of an image",
                   .settings = {likelihood.name}},
                  {.name = "kl",
                   .unit = "nats",
                   .meaning = "the KL divergence from the prior: the information in the code; near "
                              "0 the code is not used"},
                  {.name = "elbo",
                   .unit = "nats",
                   .better = higher,
                   .meaning = "a lower bound of the log likelihood of an image",
                   .settings = {likelihood.name}},
                  {.name = "mse", .better = lower, .meaning = "the mean squared error of a pixel"}},
      .samples = vae_samples(),
      .latent_codes = vae_latent_codes,
      .panels = vae_panels,
      .onnx = vae_graphs,
      .is_usable_in_programs = true,
      .reads_whole_data = true};
}

const RegisterTask registered_vae(vae_spec);

}  // namespace

VaeTask::VaeTask(const TaskSetup& setup)
    : config_(setup.config), data_(setup), model_(make_vae(config_, data_)) {}

Loss VaeTask::loss(const Batch& batch, const Pass& pass) {
  const Array images = data_.inputs(batch, pass);
  const Vae::Elbo elbo = pass.noise != nullptr ? model_.elbo(images, *pass.noise)
                                               : model_.elbo(images, pass.noise_of_examples);
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

void VaeTask::add_derived_metrics(Metrics& metrics) const {
  if (variational()) metrics["elbo"] = -metrics.at("recon") - metrics.at("kl");
}

double VaeTask::weight_of_reconstruction() const {
  const double w = config_[reconstruction_weight];
  return w == 0 ? 1
                : w * static_cast<double>(config_[latent]) /
                      static_cast<double>(model_.options.values());
}

double VaeTask::weight_of_kl(const Pass& pass) const {
  const std::int64_t warmup = config_[kl_warmup_steps];
  const double risen = pass.training && pass.step < warmup
                           ? static_cast<double>(pass.step) / static_cast<double>(warmup)
                           : 1.0;
  return config_[beta] * risen;
}

}  // namespace tapestry
