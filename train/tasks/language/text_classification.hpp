#pragma once

#include <variant>

#include "layers/models/decoder_classifier.hpp"
#include "layers/models/text_classifier.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/initial_embeddings.hpp"
#include "train/tasks/language/text_classification_data.hpp"

namespace tapestry {

// The task `text-classification`.
class TextClassification final : public Task {
 public:
  using Network = std::variant<TextClassifier, DecoderClassifier>;

  explicit TextClassification(const TaskSetup& setup);

  Module& model() override;
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().validation; }
  const Dataset* test_data() override {
    return data_.splits().test ? &*data_.splits().test : nullptr;
  }
  const Dataset* shown_data() override { return data_.is_read() ? &validation_data() : nullptr; }
  Order order() const override { return Order::similar_lengths; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  void add_derived_metrics(Metrics& metrics) const override;
  std::string remark() const override { return joined_remarks(data_.remark(), initial_); }
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

  TextClassificationData& data() { return data_; }
  // Returns the logits (B, classes) of rows of tokens. `noise` is for dropout; null: evaluation.
  Tensor logits(const Array& tokens, Random* noise = nullptr) const;
  const Network& network() const { return network_; }
  bool has_attention() const;

 private:
  std::vector<std::string> texts(const Dataset& split,
                                 std::span<const std::int64_t> examples) const;

  TextClassificationData data_;
  Network network_;
  std::string initial_;                // says which embeddings are from model.embeddings
  std::vector<double> class_weights_;  // empty: all are 1
  bool fits_baselines_;                // it has training data, which are no synthetic ones
};

Inspector<Sample> text_classification_samples();
Inspector<Predictor> text_classification_predictor();
Inspector<AttentionMaps> text_classification_attention();
ReportPanels text_classification_panels(TextClassification& task);
onnx::Models text_classification_graphs(TextClassification& task);

}  // namespace tapestry
