#pragma once

#include "layers/models/vision_transformer.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {

// The task `image-classification`.
class ImageClassification final : public Task {
 public:
  explicit ImageClassification(const TaskSetup& setup);

  VisionTransformer& model() override { return model_; }
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().validation; }
  const Dataset* test_data() override { return data_.test(); }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

  ImageData& data() { return data_; }

 private:
  ImageData data_;
  VisionTransformer model_;
};

Inspector<Sample> image_classification_samples();
Inspector<AttentionMaps> image_classification_attention();
ReportPanels image_classification_panels(ImageClassification& task);
onnx::Models image_classification_graphs(ImageClassification& task);

}  // namespace tapestry
