#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// Classifies points of a square: inside or outside of a disc at its center.
namespace {
using namespace tapestry;

// Keys of the config: name, default, help and limits. `config MY_TASK.toml` prints them.
const Key<double> radius_key{"data.radius", 1, "radius of the disc", {.low = 0.1, .high = 1.4}};
const Key<std::int64_t> hidden_key{"model.hidden", 16, "hidden units", {.low = 1, .high = 1024}};

const std::vector<std::string> class_names{"outside", "inside"};

// The data set. A batch of B examples: inputs (B, 2) float32, targets (B) int32.
class Points final : public Dataset {
 public:
  Points(std::int64_t size, double radius, std::uint64_t split)
      : size_(size), radius_(radius), split_(split) {}

  std::int64_t size() const override { return size_; }
  bool has_single_examples() const override { return true; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<float> points;
    std::vector<std::int32_t> labels;
    for (const std::int64_t example : examples) {  // each has random numbers of its own
      Random random(split_, Stream::data, static_cast<std::uint64_t>(example));
      const double x = random.uniform(-1.25, 1.25), y = random.uniform(-1.25, 1.25);
      points.insert(points.end(), {static_cast<float>(x), static_cast<float>(y)});
      labels.push_back(x * x + y * y < radius_ * radius_);
    }
    const std::int64_t B = std::ssize(labels);
    return {.inputs = Array::of(points, {B, 2}),
            .targets = Array::of(labels, {B}),
            .count = static_cast<double>(B)};
  }

 private:
  std::int64_t size_;
  double radius_;
  std::uint64_t split_;
};

// The model: its layers are fields, which fields() names.
class Network final : public Module {
 public:
  Network(std::int64_t width, Random& init) : hidden_(2, width, init), out_(width, 2, init) {}

  Tensor forward(const Tensor& points) const {  // (B, 2) -> (B, 2)
    const Scope scope(path());                  // names the ops in errors and profiles
    return out_.forward(tanh(hidden_.forward(points)));
  }
  void fields(FieldVisitor& visit) override {
    visit("hidden", hidden_);
    visit("out", out_);
  }

 private:
  Linear hidden_, out_;
};

// The task: data, model, loss and metrics of a config.
class MyTask final : public Task {
 public:
  explicit MyTask(const TaskSetup& setup)
      : training_(5000, setup.config[radius_key], 1),
        validation_(500, setup.config[radius_key], 2),
        test_(500, setup.config[radius_key], 3),
        model_(initialized(
            setup.config, [&](Random& init) { return Network(setup.config[hidden_key], init); })) {}

  Network& model() override { return model_; }
  const Points& training_data() override { return training_; }
  const Points& validation_data() override { return validation_; }
  const Points* test_data() override { return &test_; }

  // Returns the sum of the losses of a batch, and metrics as sums and counts.
  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor logits = model_.forward(batch.inputs);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    return {.objective = total,
            .averages = {{"loss", {total.item(), batch.count}},
                         {"accuracy", accuracy(logits.value(), batch.targets)}}};
  }

 private:
  Points training_, validation_, test_;
  Network model_;
};

// What the report shows of a trained model.
ReportPanels panels(MyTask& task) {
  const auto logits = [&](const Batch& batch) {
    return task.model().forward(batch.inputs).value();
  };
  return {confusion_matrix(class_predictions(*task.test_data(), 500, logits), class_names)};
}

// What `predict` adds to the rows of a file with columns x and y.
Predictor predictor(MyTask& task) {
  const auto predict = [&task](std::span<const ExampleFields> rows) {
    std::vector<float> points;
    for (const ExampleFields& row : rows)
      for (const std::string& cell : row) points.push_back(std::stof(cell));
    const Array inputs = Array::of(points, {std::ssize(rows), 2});
    return class_cells(task.model().forward(inputs).value(), class_names, 0);
  };
  return {{.fields = {{"x"}, {"y"}}}, class_columns(class_names, 0), predict};
}

TaskSpec spec() {
  return {.name = "MY_TASK",
          .help = "points of a square, inside or outside of a disc",
          .keys = {radius_key, hidden_key},
          .make = make_task_of<MyTask>,
          .metrics = classification_metrics(),
          .predictor = predictor,
          .panels = panels};
}

const RegisterTask registered(spec);

}  // namespace

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
