#pragma once

#include <variant>

#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/vision_transformer.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {

// The task `image-classification`.
class ImageClassification final : public Task {
 public:
  using Network = std::variant<VisionTransformer, ConvolutionalClassifier>;

  explicit ImageClassification(const TaskSetup& setup);

  Module& model() override;
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().validation; }
  const Dataset* test_data() override { return data_.test(); }
  const Dataset* shown_data() override { return data_.is_read() ? &validation_data() : nullptr; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  std::string remark() const override { return data_.remark(); }
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

  ImageData& data() { return data_; }
  const Network& network() const { return network_; }
  // Returns the logits (B, classes). `noise` is for dropout; null: evaluation.
  Tensor logits(const Tensor& images, Random* noise = nullptr) const;

 private:
  ImageData data_;
  Network network_;
  std::vector<double> class_weights_;  // empty: all are 1
  bool fits_baselines_;                // it has training data, which are no synthetic ones
};

Inspector<Sample> image_classification_samples();
Inspector<Predictor> image_classification_predictor();
Inspector<AttentionMaps> image_classification_attention();
ReportPanels image_classification_panels(ImageClassification& task);
onnx::Models image_classification_graphs(ImageClassification& task);

}  // namespace tapestry
