#include "train/tasks/images/vae.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/images/captions.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

const Condition is_variational = key_is("model.sigma", "per-dimension", "shared");

const Condition is_denoising = key_is("data.noise", "gaussian", "masked");

const SettingsOf<VaeSettings> vae_settings = [] {
  using S = VaeSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.channels", &S::channels,
          "channels of 3 × 3 convolutions of stride 2 before the hidden layers, such as [32, 64]",
          {.low = 1, .high = 65536}),
      Row("model.hidden", &S::hidden,
          "widths of the encoder's hidden layers; the decoder mirrors them",
          {.low = 1, .high = 65536}),
      Row("model.latent", &S::latent, "latent dimensions",
          {.low = 1, .high = 65536, .also_called = {"latent_dim", "latent_size", "z_dim"}}),
      Row("model.sigma", &S::sigma,
          "log σ of the code: predicted per dimension, one learned number, or none (a plain "
          "autoencoder)",
          {{"per-dimension", Sigma::per_dimension},
           {"shared", Sigma::shared},
           {"none", Sigma::none}}),
      Row("model.likelihood", &S::likelihood,
          "likelihood of a pixel: bernoulli, or gaussian with variance 1 (half the squared error)",
          {{"bernoulli", Likelihood::bernoulli}, {"gaussian", Likelihood::gaussian}}),
      Row("model.reconstruction_weight", &S::reconstruction_weight,
          "weight of the reconstruction error (mean over m pixels) relative to the KL term (mean "
          "over n dimensions); 0: m/n, the ELBO",
          {.low = 0, .high = 1e9}),
      Row("model.beta", &S::beta, "weight of the KL term in training",
          {.low = 0, .high = 1e6, .used_if = {is_variational}}),
      Row("model.kl_warmup_steps", &S::kl_warmup_steps,
          "steps in which the weight of the KL term rises from 0",
          {.low = 0, .used_if = {is_variational}}),
      activation_setting<VaeSettings>(&S::activation),
      Row("data.noise", within(&S::noise, &ImageNoise::kind),
          "noise of the input images, which the autoencoder removes: none, gaussian, or masked "
          "(values that are set to 0)",
          {{"none", Noise::none}, {"gaussian", Noise::gaussian}, {"masked", Noise::masked}}),
      Row("data.noise_level", within(&S::noise, &ImageNoise::level),
          "standard deviation of gaussian noise, where 1 is white; or fraction of masked values",
          {.low = 0, .high = 10, .used_if = {is_denoising}}),
      Row("train.importance_samples", &S::importance_samples,
          "samples of each image in evaluations, for the importance-weighted bound; 0: none",
          {.low = 0, .high = 1e6, .does_not_affect_result = true, .used_if = {is_variational}})};
}();

Vae make_vae(const Config& config, const ImageData& images) {
  const Given<VaeSettings> given = vae_settings.of(config);
  given.expect(!given.hidden.empty(), "hidden", "expected at least one layer");
  given.expect(given.noise.is_possible(), "noise_level",
               "expected a fraction of the values, below 1");
  VaeOptions options = given;
  const auto [C, H, W] = images.size();
  options.channels_in = C;
  options.height = H;
  options.width = W;
  return initialized(config, [&](Random& init) { return Vae(options, init); });
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  const VaeSettings model = vae_settings.of(config);
  return fmt::format("a {}{}{} autoencoder of images with {}",
                     model.noise.is_any() ? "denoising " : "",
                     model.channels.empty() ? "" : "convolutional ",
                     model.sigma == Sigma::none ? "plain" : "variational",
                     counted(model.latent, "latent dimension"));
}

std::vector<Recognized> recognize_for_vae(const UserData& data) {
  return {recognized_as("vae", "images", [&](Recognized& found) {
    recognize_images(found, data, false);
    // Images with classes are meant to be classified, those with captions to be described.
    const bool has_others = has_captions(data.path) || has_masks(data.path);
    found.fit = has_others ? Recognized::Fit::on_request : Recognized::Fit::possible;
    found.base = "clothes-vae";
    if (found.fit == Recognized::Fit::on_request) return;
    const std::string table = table_of_pictures(data.path);
    const std::vector<std::string> words = classes_in_names(data.path);
    if (table.empty() && words.empty()) return;
    found.fit = Recognized::Fit::on_request;
    found.asks = true;
    found.refusal = table.empty()
                        ? fmt::format(
                              "the names of the pictures begin with {}, but classes are read "
                              "from folders: move each picture into one of its class",
                              printable(list_briefly(words)))
                        : fmt::format(
                              "{} names the pictures, but classes are read from folders: "
                              "move each picture into one of its class, or name a table of "
                              "captions {}",
                              table, captions_file);
  })};
}

TaskSpec vae_spec() {
  using enum MetricInfo::Better;
  return {
      .name = "vae",
      .help = "an autoencoder of images, variational or plain",
      .describe = description,
      .keys = joined({image_settings.keys(), vae_settings.keys()}),
      .make = make_task_of<VaeTask>,
      .detect = detect_images,
      .recognize = recognize_for_vae,
      .metrics = {{.name = "loss",
                   .unit = "nats",
                   .better = lower,
                   .meaning = "the weighted sum of recon and kl",
                   .settings = {"model.beta", "model.reconstruction_weight", "model.likelihood"}},
                  {.name = "recon",
                   .unit = "nats",
                   .better = lower,
                   .meaning = "the reconstruction error of an image",
                   .settings = {"model.likelihood"}},
                  {.name = "kl",
                   .unit = "nats",
                   .meaning = "the KL divergence from the prior: the information in the code; near "
                              "0 the code is not used"},
                  {.name = "elbo",
                   .unit = "nats",
                   .better = higher,
                   .meaning = "a lower bound of the log likelihood of an image",
                   .settings = {"model.likelihood"}},
                  {.name = "importance_bound",
                   .unit = "nats",
                   .better = higher,
                   .meaning = "the importance-weighted lower bound of the log likelihood of an "
                              "image, which is at least the elbo in the mean",
                   .settings = {"model.likelihood", "train.importance_samples"}},
                  {.name = "mse", .better = lower, .meaning = "the mean squared error of a pixel"}},
      .samples = vae_samples(),
      .predictor = vae_predictor,
      .latent_codes = vae_latent_codes,
      .panels = vae_panels,
      .onnx = vae_graphs,
      .reads_whole_data = true};
}

const RegisterTask registered_vae(vae_spec);

}  // namespace

VaeTask::VaeTask(const TaskSetup& setup)
    : settings_(vae_settings.of(setup.config)),
      data_(setup),
      model_(make_vae(setup.config, data_)),
      fits_baselines_(has_own_training_data(setup)) {}

Loss VaeTask::loss(const Batch& batch, const Pass& pass) {
  const Array images = data_.inputs(batch, pass);
  const std::span<Random> noise =
      pass.noise != nullptr ? std::span(pass.noise, 1) : pass.noise_of_examples;
  const Array input = noisy(images, settings_.noise, noise);
  const MetricSums bound = pass.training ? MetricSums() : importance_bound(input, batch, noise);
  const Vae::Elbo elbo = model_.elbo(input, images, noise);
  Loss loss{weight_of_reconstruction() * elbo.recon + weight_of_kl(pass) * elbo.kl,
            averages(elbo, batch)};
  if (pass.training) return loss;
  add_squared_error(loss.averages, elbo.decoded, batch);
  loss.averages.insert(bound.begin(), bound.end());
  return loss;
}

// The loss has the final weight of the KL term.
MetricSums VaeTask::averages(const Vae::Elbo& elbo, const Batch& batch) const {
  const double recon = elbo.recon.item(), kl = elbo.kl.item();
  MetricSums sums{
      {"loss", {weight_of_reconstruction() * recon + settings_.beta * kl, batch.count}}};
  if (variational()) sums.insert({{"recon", {recon, batch.count}}, {"kl", {kl, batch.count}}});
  return sums;
}

void VaeTask::add_squared_error(MetricSums& sums, const Tensor& decoded, const Batch& batch) const {
  const Tensor error = squared_error(model_.mean_of(decoded), batch.inputs);
  sums["mse"] = {sum(error).item(), static_cast<double>(error.size())};
}

// Draws from copies of the generators, so that the other metrics do not depend on this one.
MetricSums VaeTask::importance_bound(const Array& input, const Batch& batch,
                                     std::span<Random> noise) const {
  if (settings_.importance_samples == 0) return {};
  std::vector<Random> copies(noise.begin(), noise.end());
  MetricSum sum;
  for (const double bound :
       model_.importance_bounds(input, batch.inputs, settings_.importance_samples, copies))
    sum += {bound, 1};
  return {{"importance_bound", sum}};
}

// The mean of the training's images, for every code: its KL term is 0. The constant of a Gaussian
// likelihood is most of its loss, of which a share says nothing.
std::vector<Baselines> VaeTask::baselines(JudgedSplits judged) {
  const bool is_bernoulli = model_.options.likelihood == Likelihood::bernoulli;
  if (!fits_baselines_ || (variational() && !is_bernoulli)) return {};
  constexpr std::int64_t most = 10'000, at_once = 256;
  const Dataset& training = training_data();
  const std::int64_t count = std::min(most, training.size());
  Tensor total = Array::zeros({1, data_.size().values()});
  for (std::int64_t first = 0; first < count; first += at_once)
    total =
        total + sum(Tensor(batch_from(training, first, std::min(at_once, count - first)).inputs),
                    {0}, Keep::yes);
  Array mean = scale(total, 1 / static_cast<double>(count)).value().clone();
  constexpr float least = 1e-4F;  // of a probability, so that its logarithm is finite
  if (is_bernoulli)
    for (float& value : mean.mutable_values<float>()) {
      const float p = std::clamp(value, least, 1 - least);
      value = std::log(p / (1 - p));
    }
  std::vector<Baselines> all;
  for (const Dataset* split : judged) {
    MetricSums sums;
    for (std::int64_t first = 0; first < split->size(); first += at_once) {
      const Batch batch = batch_from(*split, first, at_once);
      const Tensor decoded = Tensor(Array::zeros(batch.inputs.shape())) + Tensor(mean);
      MetricSums own = averages({.recon = model_.reconstruction_error(decoded, batch.inputs),
                                 .kl = Array::zeros({}),
                                 .decoded = decoded},
                                batch);
      add_squared_error(own, decoded, batch);
      for (const auto& [name, sum] : own) sums[name] += sum;
    }
    all.push_back({{"mean image", values_of(sums)}});
    add_derived_metrics(all.back().front().metrics);
  }
  return all;
}

void VaeTask::add_derived_metrics(Metrics& metrics) const {
  if (variational()) metrics["elbo"] = -metrics.at("recon") - metrics.at("kl");
}

double VaeTask::weight_of_reconstruction() const {
  const double w = settings_.reconstruction_weight;
  return w == 0 ? 1
                : w * static_cast<double>(settings_.latent) /
                      static_cast<double>(model_.options.values());
}

double VaeTask::weight_of_kl(const Pass& pass) const {
  const std::int64_t warmup = settings_.kl_warmup_steps;
  const double risen = pass.training && pass.step < warmup
                           ? static_cast<double>(pass.step) / static_cast<double>(warmup)
                           : 1.0;
  return settings_.beta * risen;
}

}  // namespace tapestry
