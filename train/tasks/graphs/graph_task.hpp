#pragma once

#include "layers/models/graph_network.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/graphs/graph_data.hpp"

namespace tapestry {

// The task `graph`, which classifies the nodes of a graph, or whole graphs.
class GraphTask final : public Task {
 public:
  explicit GraphTask(const TaskSetup& setup);

  GraphNetwork& model() override { return model_; }
  const Dataset& training_data() override { return *data_.training; }
  // Throws InputError if no node has a label.
  const Dataset& validation_data() override;
  const Dataset* test_data() override { return data_.test.get(); }
  const Dataset* shown_data() override { return test_data() ? test_data() : &validation_data(); }
  bool is_computed_whole() const override { return data_.whole != nullptr; }
  std::string remark() const override { return data_.remark; }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> metadata() const override;
  std::vector<std::string> groups() const override;
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;

  const GraphData& data() const { return data_; }

 private:
  double l2_;
  GraphData data_;
  GraphNetwork model_;
  bool fits_baselines_;  // it has training data, which are no synthetic ones
};

Inspector<Sample> graph_samples();
Predictor graph_predictor(GraphTask& task);
ReportPanels graph_panels(GraphTask& task);
onnx::Models graph_network_graphs(GraphTask& task);

}  // namespace tapestry
