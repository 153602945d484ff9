#pragma once

#include "layers/models/tabular_network.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/tables/table_data.hpp"

namespace tapestry {

// The task `table`: a network that predicts a column of a table from others.
class TableTask final : public Task {
 public:
  explicit TableTask(const TaskSetup& setup);

  TabularNetwork& model() override { return model_; }
  const Dataset& training_data() override { return *data_.splits().train; }
  const Dataset& validation_data() override { return *data_.splits().validation; }
  const Dataset* test_data() override {
    return data_.splits().test ? &*data_.splits().test : nullptr;
  }
  const Dataset* shown_data() override { return data_.is_read() ? &validation_data() : nullptr; }
  const char* unit() const override { return "rows"; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  void add_derived_metrics(Metrics& metrics) const override;
  void add_score_metrics(const ScoredExamples& scored, Metrics& metrics) const override;
  std::string remark() const override { return data_.remark(); }
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

  const TableData& data() const { return data_; }
  // Returns the mean over the members: of classes log probabilities (B, K); of a number (B, 1), as
  // the targets are scaled.
  Array predicted(const Array& inputs) const;

 private:
  // Returns the metrics of outputs as predicted() returns them.
  Loss measured(const Array& outputs, const Batch& batch) const;

  TableData data_;
  TabularNetwork model_;
  std::vector<double> class_weights_;  // empty: all are 1
  bool fits_baselines_;                // it has training data, which are no synthetic ones
};

Inspector<Sample> table_samples();
Inspector<Predictor> table_predictor();
ReportPanels table_panels(TableTask& task);
onnx::Models table_graphs(TableTask& task);

}  // namespace tapestry
