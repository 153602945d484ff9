#pragma once

#include <memory>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "layers/models/graph_network.hpp"
#include "train/task.hpp"

namespace tapestry {

// The data of the task: the nodes of one graph, or graphs, to classify.
struct GraphData {
  std::int64_t inputs = 0;
  std::vector<std::string> classes{};
  std::unique_ptr<Dataset> training{}, validation{}, test{};
  std::shared_ptr<const NodeGraph> whole{};  // the graph whose nodes are classified, or null
  const SyntheticGraphs* drawn = nullptr;  // the validation split if graphs are classified, or null
};

// The task `graph`, which classifies the nodes of a graph, or whole graphs.
class GraphTask final : public Task {
 public:
  explicit GraphTask(const TaskSetup& setup);

  GraphNetwork& model() override { return model_; }
  const Dataset& training_data() override { return *data_.training; }
  const Dataset& validation_data() override { return *data_.validation; }
  const Dataset* test_data() override { return data_.test.get(); }
  bool is_computed_whole() const override { return data_.whole != nullptr; }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> metadata() const override;
  Loss loss(const Batch& batch, const Pass& pass) override;

  const GraphData& data() const { return data_; }

 private:
  // Returns ½ λ ‖θ‖² over the first layer's weights, the regularization of Kipf & Welling.
  Tensor penalty() const;

  double l2_;  // λ
  GraphData data_;
  GraphNetwork model_;
  std::vector<const Parameter*> first_weights_;  // weights of the first layer
};

Inspector<Sample> graph_samples();
ReportPanels graph_panels(GraphTask& task);
onnx::Models graph_network_graphs(GraphTask& task);

}  // namespace tapestry
