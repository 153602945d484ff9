#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// Classifies pictures of stripes by their direction.
namespace {
using namespace tapestry;

// Keys of the config: name, default, help and limits. `config MY_TASK.toml` prints them.
const Key<double> noise_key{"data.noise", 0.3, "deviation of the noise", {.low = 0, .high = 10}};
const Key<std::int64_t> channels_key{"model.channels", 8, "of a convolution", {.low = 1}};

const std::vector<std::string> class_names{"horizontal", "vertical", "diagonal"};
constexpr std::int64_t side = 12;  // of a picture, in pixels

// The data set. A batch of B examples: inputs (B, 1, side, side) float32, targets (B) int32.
class Stripes final : public Dataset {
 public:
  Stripes(std::int64_t size, double noise, std::uint64_t split)
      : size_(size), noise_(noise), split_(split) {}

  std::int64_t size() const override { return size_; }
  bool has_single_examples() const override { return true; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<float> pixels;
    std::vector<std::int32_t> labels;
    for (const std::int64_t example : examples) {  // each has random numbers of its own
      Random random(split_, Stream::data, static_cast<std::uint64_t>(example));
      const std::int64_t label = random.below(std::ssize(class_names)), shift = random.below(4);
      for (std::int64_t y = 0; y < side; ++y)
        for (std::int64_t x = 0; x < side; ++x) {
          const std::int64_t place = (label == 0 ? y : label == 1 ? x : x + y) + shift;
          const double value = (place / 2 % 2) + noise_ * random.normal();
          pixels.push_back(static_cast<float>(std::clamp(value, 0.0, 1.0)));
        }
      labels.push_back(static_cast<std::int32_t>(label));
    }
    const std::int64_t B = std::ssize(labels);
    return {.inputs = Array::of(pixels, {B, 1, side, side}),
            .targets = Array::of(labels, {B}),
            .count = static_cast<double>(B)};
  }

 private:
  std::int64_t size_;
  double noise_;
  std::uint64_t split_;
};

// The model: its layers are fields, which fields() names.
class Network final : public Module {
 public:
  Network(std::int64_t channels, Random& init)
      : first_(1, channels, init, {.kernel = 3, .padding = 1}),
        second_(channels, 2 * channels, init, {.kernel = 3, .padding = 1}),
        out_(2 * channels * (side / 4) * (side / 4), std::ssize(class_names), init) {}

  Tensor forward(const Tensor& pictures) const {  // (B, 1, side, side) -> logits (B, classes)
    const Scope scope(path());                    // names the ops in errors and profiles
    const Tensor half = max_pool2d(relu(first_.forward(pictures)));
    const Tensor quarter = max_pool2d(relu(second_.forward(half)));
    return out_.forward(reshape(quarter, {pictures.dim(0), -1}));
  }
  void fields(FieldVisitor& visit) override {
    visit.all("first, second, out", first_, second_, out_);
  }

 private:
  Convolution2d first_, second_;
  Linear out_;
};

// The task: data, model, loss and metrics of a config.
class MyTask final : public Task {
 public:
  explicit MyTask(const TaskSetup& setup)
      : training_(2000, setup.config[noise_key], 1),
        validation_(300, setup.config[noise_key], 2),
        test_(300, setup.config[noise_key], 3),
        model_(initialized(setup.config, [&](Random& init) {
          return Network(setup.config[channels_key], init);
        })) {}

  Network& model() override { return model_; }
  const Stripes& training_data() override { return training_; }
  const Stripes& validation_data() override { return validation_; }
  const Stripes* test_data() override { return &test_; }
  // Returns the cross-entropy, summed over the batch, and the metrics loss and accuracy.
  Loss loss(const Batch& batch, const Pass&) override {
    return classification_loss(model_.forward(batch.inputs), batch, {});
  }

 private:
  Stripes training_, validation_, test_;
  Network model_;
};

// What the report shows: pictures of the test split with what the model says.
ReportPanels panels(MyTask& task) {
  const Batch batch = batch_from(*task.test_data(), 0, 12);
  LabeledPictures shown{.title = "Predictions", .images = batch.inputs};
  for (const std::int32_t predicted : likeliest(task.model().forward(batch.inputs).value()))
    shown.labels.push_back(class_names[predicted]);
  return {shown};
}

TaskSpec spec() {
  return {.name = "MY_TASK",
          .help = "pictures of stripes by their direction",
          .keys = {noise_key, channels_key},
          .make = make_task_of<MyTask>,
          .metrics = classification_metrics(),
          .panels = panels};
}

const RegisterTask registered(spec);

}  // namespace

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
