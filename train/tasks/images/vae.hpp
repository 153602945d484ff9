#pragma once

#include "data/images/noise.hpp"
#include "layers/models/vae.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {

// An autoencoder as a config describes it, the weights of its loss, and the noise of its inputs.
struct VaeSettings : VaeOptions {
  VaeSettings() {
    latent = 3;
    activation = Activation::gelu;
  }
  double reconstruction_weight = 0;  // 0: the ELBO
  double beta = 1;                   // weight of the KL term
  std::int64_t kl_warmup_steps = 0;
  std::int64_t importance_samples = 0;  // of the importance-weighted bound; 0: none
  ImageNoise noise{};
};

// The task `vae`: an autoencoder of images, variational or plain.
class VaeTask final : public Task {
 public:
  explicit VaeTask(const TaskSetup& setup);

  Vae& model() override { return model_; }
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().validation; }
  const Dataset* test_data() override { return data_.test(); }
  const Dataset* shown_data() override { return data_.is_read() ? &validation_data() : nullptr; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  std::string remark() const override { return data_.remark(); }
  void add_derived_metrics(Metrics& metrics) const override;
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

  ImageData& data() { return data_; }
  bool variational() const { return model_.options.sigma != Sigma::none; }
  const ImageNoise& noise() const { return settings_.noise; }

 private:
  // Returns the weight of the reconstruction error: 1 if the config's weight w is 0, else w n/m for
  // m values of an image and n latent dimensions. Training minimizes this weight · recon + β · kl;
  // if w is not 0, that is n · (w · recon/m + β · kl/n), with the means over values and dimensions.
  double weight_of_reconstruction() const;
  // Returns β, which rises during its warm-up in training. An evaluation uses its final value at
  // any step, because evaluations choose the best model.
  double weight_of_kl(const Pass& pass) const;
  // Return the metrics of a batch, and add that of its decoded images.
  MetricSums averages(const Vae::Elbo& elbo, const Batch& batch) const;
  void add_squared_error(MetricSums& sums, const Tensor& decoded, const Batch& batch) const;
  // Returns the importance-weighted bound of a batch, if the config wants it.
  MetricSums importance_bound(const Array& input, const Batch& batch,
                              std::span<Random> noise) const;

  VaeSettings settings_;
  ImageData data_;
  Vae model_;
  bool fits_baselines_;  // it has training data, which are no synthetic ones
};

Inspector<Sample> vae_samples();
Predictor vae_predictor(VaeTask& task);
LatentCodes vae_latent_codes(VaeTask& task);
ReportPanels vae_panels(VaeTask& task);
onnx::Models vae_graphs(VaeTask& task);

}  // namespace tapestry
