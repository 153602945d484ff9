#pragma once

#include "layers/models/forecaster.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/series/series_data.hpp"

namespace tapestry {

// The task `forecast`.
class Forecast final : public Task {
 public:
  explicit Forecast(const TaskSetup& setup);

  Forecaster& model() override { return model_; }
  const Dataset& training_data() override { return data().splits().train; }
  const Dataset& validation_data() override { return data().splits().validation; }
  const Dataset* test_data() override { return &data().splits().test; }
  const Dataset* shown_data() override { return test_data(); }
  SeriesData::Metadata metadata() const override { return data_ ? data_->metadata() : trained_; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  std::string remark() const override { return data_ ? data_->remark() : ""; }
  std::int64_t unmeasured() const override { return data_ ? data_->unmeasured() : 0; }
  void add_derived_metrics(Metrics& metrics) const override { metrics["mse"] = metrics.at("loss"); }

  SeriesData& data();  // reads the data at the first call

 private:
  Given<SeriesSettings> series_;
  SeriesData::Metadata trained_;  // metadata of a checkpoint, or empty
  bool whole_data_;
  std::optional<SeriesData> data_;
  Forecaster model_;
};

Inspector<Sample> forecast_samples();
Predictor forecast_predictor(Forecast& task);
Inspector<AttentionMaps> forecast_attention();
ReportPanels forecast_panels(Forecast& task);
onnx::Models forecast_graphs(Forecast& task);

}  // namespace tapestry
