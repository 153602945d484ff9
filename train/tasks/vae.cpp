#include "layers/vae.hpp"

#include <cmath>

#include "autograd/ops/arithmetic.hpp"
#include "data/images.hpp"
#include "train/keys.hpp"
#include "train/picture.hpp"
#include "train/task.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> training_images{"data.training_images",
                                        10'000,
                                        "clothes to draw when data.path is empty",
                                        {.low = 1, .high = 1e6}};
const Key<std::int64_t> test_images{
    "data.test_images", 1000, "clothes to draw for validation", {.low = 1, .high = 1e6}};
const Key<std::vector<std::int64_t>> hidden{
    "model.hidden",
    {400},
    "widths of the encoder's hidden layers; the decoder mirrors them",
    {.low = 1, .high = 65536}};
const Key<std::int64_t> latent{"model.latent", 20, "dimensions of z", {.low = 1, .high = 65536}};
const Key<std::string> sigma{"model.sigma",
                             "per-dimension",
                             "log σ from a head, or one learnt number",
                             {.choices = {"per-dimension", "shared"}}};
const Key<std::string> likelihood{"model.likelihood",
                                  "bernoulli",
                                  "of a pixel: bernoulli, or gaussian of variance 1",
                                  {.choices = {"bernoulli", "gaussian"}}};
const Key<double> beta{
    "model.beta", 1, "weight of the KL term in training", {.low = 0, .high = 1e6}};
const Key<std::int64_t> kl_warmup_steps{
    "model.kl_warmup_steps", 0, "steps over which the KL term's weight rises from 0", {.low = 0}};

std::vector<KeyInfo> keys() {
  return {training_images, test_images, hidden,          latent,         sigma,
          likelihood,      beta,        kl_warmup_steps, key::activation};
}

ImageSplits load(const Config& config) {
  if (!config[key::data_path].empty()) return load_images(config[key::data_path]);
  return draw_clothes(config[training_images], config[test_images],
                      static_cast<std::uint64_t>(config[key::seed]));
}

class VaeTask final : public Task {
 public:
  explicit VaeTask(const TaskSetup& setup) : config_(setup.config) {
    if (!setup.memory.empty()) {
      height_ = std::stoll(setup.memory.at("height"));
      width_ = std::stoll(setup.memory.at("width"));
    }
    if (setup.needs_data) {
      splits_.emplace(load(config_));
      const ImageDataset& images = splits_->train;
      expect_input(setup.memory.empty() || (images.height() == height_ && images.width() == width_),
                   "{}: images of {} × {} pixels; this model was trained on {} × {}",
                   config_[key::data_path], images.height(), images.width(), height_, width_);
      height_ = images.height();
      width_ = images.width();
    }
    Random init(static_cast<std::uint64_t>(config_[key::seed]), Stream::init);
    model_.emplace(options(), init);
  }

  Module& model() override { return *model_; }
  const Dataset& training_data() override { return splits_.value().train; }
  const Dataset& validation_data() override { return splits_.value().test; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Vae::Elbo elbo = model_->elbo(batch.inputs, *pass.noise);
    const double recon = elbo.recon.item(), kl = elbo.kl.item();
    return {elbo.recon + weight(pass) * elbo.kl,
            {{"loss", {recon + kl, batch.count}},
             {"recon", {recon, batch.count}},
             {"kl", {kl, batch.count}}}};
  }

  void derive(Metrics& metrics) const override { metrics["elbo"] = -metrics.at("loss"); }

  Sample sample(const SampleOptions& options) override {
    const std::int64_t count = options.count > 0 ? options.count : 64;
    Random random(options.seed, Stream::sample);
    Array z({count, config_[latent]}, model_->mean.weight.tensor.dtype());
    random.fill_normal(z, 0, options.temperature);
    const Array images = model_->expected_image(z).value().to(DType::float32);
    const auto columns =
        static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    return {"", picture_grid(images.reshaped({count, height_, width_}), columns)};
  }

  std::map<std::string, std::string> memory() const override {
    return {{"height", std::to_string(height_)}, {"width", std::to_string(width_)}};
  }

 private:
  VaeOptions options() const {
    config_.expect(!config_[hidden].empty(), hidden, "expected at least one layer");
    return {.inputs = height_ * width_,
            .hidden = config_[hidden],
            .latent = config_[latent],
            .sigma = config_[sigma] == "shared" ? Sigma::shared : Sigma::per_dimension,
            .likelihood =
                config_[likelihood] == "gaussian" ? Likelihood::gaussian : Likelihood::bernoulli,
            .activation = activation_of(config_)};
  }

  // β, after its warm-up. Evaluation reports the ELBO itself, whatever β is.
  double weight(const Pass& pass) const {
    const std::int64_t warmup = config_[kl_warmup_steps];
    const double risen = pass.training && pass.step < warmup
                             ? static_cast<double>(pass.step) / static_cast<double>(warmup)
                             : 1.0;
    return config_[beta] * risen;
  }

  Config config_;
  std::int64_t height_ = 0, width_ = 0;
  std::optional<ImageSplits> splits_;
  std::optional<Vae> model_;
};

const RegisterTask registered("vae", {"a variational autoencoder of images", keys(),
                                      [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                        return std::make_unique<VaeTask>(setup);
                                      }});

}  // namespace
}  // namespace tapestry
