#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// Predicts a number from the columns of a row.
namespace {
using namespace tapestry;

// Keys of the config: name, default, help and limits. `config MY_TASK.toml` prints them.
const Key<std::vector<std::int64_t>> hidden_key{
    "model.hidden", {64, 64}, "units of each hidden layer", {.low = 1, .high = 65536}};
const Key<double> noise_key{"data.noise", 0.5, "deviation of the noise", {.low = 0, .high = 10}};

constexpr std::int64_t columns = 10;
constexpr double mean_y = 14.4, deviation = 5;  // the model predicts (y - mean) / deviation

// The data set: y = 10 sin(π x1 x2) + 20 (x3 - 1/2)² + 10 x4 + 5 x5 + noise (Friedman 1991,
// "Multivariate adaptive regression splines", eq. 56). A batch of B rows: inputs (B, columns) and
// targets (B, 1) float32.
class Rows final : public Dataset {
 public:
  Rows(std::int64_t size, double noise, std::uint64_t split)
      : size_(size), noise_(noise), split_(split) {}

  std::int64_t size() const override { return size_; }
  bool has_single_examples() const override { return true; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    const std::int64_t B = std::ssize(examples);
    std::vector<float> inputs, targets;
    for (const std::int64_t example : examples) {  // each has random numbers of its own
      Random random(split_, Stream::data, static_cast<std::uint64_t>(example));
      std::vector<double> x(columns);
      for (double& value : x) value = random.uniform();
      const double y = 10 * std::sin(3.14159265358979 * x[0] * x[1]) +
                       20 * (x[2] - 0.5) * (x[2] - 0.5) + 10 * x[3] + 5 * x[4] +
                       noise_ * random.normal();
      inputs.insert(inputs.end(), x.begin(), x.end());
      targets.push_back(static_cast<float>((y - mean_y) / deviation));
    }
    return {.inputs = Array::of(inputs, {B, columns}),
            .targets = Array::of(targets, {B, 1}),
            .count = static_cast<double>(B)};
  }

 private:
  std::int64_t size_;
  double noise_;
  std::uint64_t split_;
};

// The task: data, model, loss and metrics of a config.
class MyTask final : public Task {
 public:
  explicit MyTask(const TaskSetup& setup)
      : training_(5000, setup.config[noise_key], 1),
        validation_(500, setup.config[noise_key], 2),
        test_(500, setup.config[noise_key], 3),
        model_(initialized(setup.config, [&](Random& init) {
          std::vector<std::int64_t> widths = setup.config[hidden_key];
          widths.insert(widths.begin(), columns);
          widths.push_back(1);
          return Mlp(widths, init, {.activation = Activation::silu});
        })) {}

  Mlp& model() override { return model_; }
  const Rows& training_data() override { return training_; }
  const Rows& validation_data() override { return validation_; }
  const Rows* test_data() override { return &test_; }

  // Returns the squared errors, summed over the batch, and metrics as sums and counts.
  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor predicted = model_.forward(batch.inputs);  // float64 in gradcheck
    const Tensor total = sum(squared_error(predicted, batch.targets.to(predicted.dtype())));
    return {.objective = total, .averages = {{"loss", {total.item(), batch.count}}}};
  }
  void add_derived_metrics(Metrics& metrics) const override {
    metrics["rmse"] = deviation * std::sqrt(metrics.at("loss"));
  }

 private:
  Rows training_, validation_, test_;
  Mlp model_;
};

// What the report shows: predictions for rows of the test split.
ReportPanels panels(MyTask& task) {
  TablePanel table{.title = "Predictions", .rows = {{"row", "target", "prediction"}}};
  const auto text = [](double scaled) {
    return fmt::format("{:.2f}", mean_y + deviation * scaled);
  };
  for (std::int64_t row = 0; row < 10; ++row) {
    const auto [inputs, targets, count, none] = batch_from(*task.test_data(), row, 1);
    table.rows.push_back({fmt::format("{}", row), text(targets.values<float>()[0]),
                          text(task.model().forward(inputs).item())});
  }
  return {table};
}

TaskSpec spec() {
  using enum MetricInfo::Better;
  return {.name = "MY_TASK",
          .help = "a number from the columns of a row",
          .keys = {hidden_key, noise_key},
          .make = make_task_of<MyTask>,
          .metrics = {{"rmse", "", lower, "the root of the mean squared error"}},
          .panels = panels};
}

const RegisterTask registered(spec);

}  // namespace

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
