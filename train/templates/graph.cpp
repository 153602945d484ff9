#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// Classifies graphs by a layer of its own, whose edges have attention.
namespace {
using namespace tapestry;

// Keys of the config: name, default, help and limits. `config MY_TASK.toml` prints them.
const Key<std::int64_t> width_key{"model.width", 32, "features of a node", {.low = 1}};
const Key<std::int64_t> layers_key{"model.layers", 3, "graph layers", {.low = 1, .high = 100}};

// A layer of attention along edges: y_j = relu(own x_j + Σ_i a_ij value x_i), where a_ij is the
// softmax of the scores key x_i · query x_j over the edges that end at node j.
class AttentionLayer final : public Module {
 public:
  AttentionLayer(std::int64_t in, std::int64_t out, Random& init)
      : own_(in, out, init), query_(in, out, init), key_(in, out, init), value_(in, out, init) {}

  Tensor forward(const Adjacency& graph, const Tensor& x) const {  // (N, in) -> (N, out)
    const Scope scope(path());  // names the ops in errors and profiles
    const Tensor key = key_.forward(x), query = query_.forward(x), value = value_.forward(x);
    const Tensor scores = edge_products(graph, key, query);  // (E, 1)
    const Tensor weights = segment_softmax(scores, graph.incoming().offsets);
    return relu(own_.forward(x) + neighbor_sum(graph, value, weights));
  }
  void fields(FieldVisitor& visit) override {
    visit.all("own, query, key, value", own_, query_, key_, value_);
  }

 private:
  Linear own_, query_, key_, value_;
};

// The model: the layers, the sum of each graph's nodes, and a linear layer.
class Network final : public Module {
 public:
  Network(std::int64_t layers, std::int64_t width, Random& init)
      : out_(width, std::ssize(SyntheticGraphs::classes()), init) {
    for (std::int64_t i = 0; i < layers; ++i) layers_.emplace_back(i == 0 ? 2 : width, width, init);
  }

  // Features (N, 2) of the nodes of G graphs -> logits (G, classes).
  Tensor forward(const GraphPart& graphs, Tensor x) const {
    for (const AttentionLayer& layer : layers_) x = layer.forward(graphs.adjacency, x);
    return out_.forward(segment_mean(x, graphs.first_nodes));
  }
  void fields(FieldVisitor& visit) override { visit.all("layers, out", layers_, out_); }

 private:
  std::vector<AttentionLayer> layers_;
  Linear out_;
};

// The data set: graphs of data/graphs/, whose nodes have two features, a 1 and their degree. A
// batch: inputs (N, 2) float32, the graphs, targets (G) int32.
class Graphs final : public Dataset {
 public:
  Graphs(std::int64_t size, Split split) : graphs_({.examples = size, .split = split}) {}

  std::int64_t size() const override { return graphs_.size(); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch = graphs_.batch(examples);
    const Adjacency& graph = batch.part<GraphPart>().adjacency;
    batch.inputs = concat({batch.inputs, 0.1 * neighbor_sum(graph, batch.inputs)}, 1).value();
    return batch;
  }

 private:
  SyntheticGraphs graphs_;
};

// The task: data, model, loss and metrics of a config.
class MyTask final : public Task {
 public:
  explicit MyTask(const TaskSetup& setup)
      : training_(20'000, Split::train),
        validation_(200, Split::validation),
        model_(initialized(setup.config, [&](Random& init) {
          return Network(setup.config[layers_key], setup.config[width_key], init);
        })) {}

  Network& model() override { return model_; }
  const Graphs& training_data() override { return training_; }
  const Graphs& validation_data() override { return validation_; }

  Tensor logits(const Batch& batch) const {
    return model_.forward(batch.part<GraphPart>(), batch.inputs);
  }
  // Returns the cross-entropy, summed over the batch, and the metrics loss and accuracy.
  Loss loss(const Batch& batch, const Pass&) override {
    return classification_loss(logits(batch), batch, {});
  }

 private:
  Graphs training_, validation_;
  Network model_;
};

// What the report shows: which classes are taken for which.
ReportPanels panels(MyTask& task) {
  const auto logits = [&](const Batch& batch) { return task.logits(batch).value(); };
  return {confusion_matrix(class_predictions(task.validation_data(), 50, logits),
                           SyntheticGraphs::classes())};
}

TaskSpec spec() {
  return {.name = "MY_TASK",
          .help = "graphs by their kind",
          .keys = {width_key, layers_key},
          .make = make_task_of<MyTask>,
          .metrics = classification_metrics(),
          .panels = panels};
}

const RegisterTask registered(spec);

}  // namespace

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
