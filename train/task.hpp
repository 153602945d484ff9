#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "layers/module.hpp"
#include "train/settings/config.hpp"

namespace tapestry {

// A sum and what it is divided by when it is reported. Averages over batches add.
struct Average {
  double sum = 0, count = 0;
  double value() const { return count > 0 ? sum / count : 0; }
  Average& operator+=(const Average& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
};
using Averages = std::map<std::string, Average>;
using Metrics = std::map<std::string, double>;

// What a model wrote in an evaluation, and what it should have written.
struct Transcript {
  std::vector<std::string> written{}, wanted{};
};

// One pass of a model over a batch.
struct Loss {
  Tensor objective;         // a sum over the batch: the trainer divides it by the count of the step
  Averages averages;        // to report, "loss" always among them
  Transcript transcript{};  // of a batch that is evaluated, where the task is to write
};

// When and with which random numbers a pass runs.
struct Pass {
  bool training = false;
  std::int64_t step = 0;
  Random* noise = nullptr;  // for dropout while training, and for what a model samples
};

struct SampleOptions {
  std::string prompt{};
  std::int64_t count = 0;   // 0: the task's own default
  std::int64_t tokens = 0;  // 0: the task's own default
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  std::uint64_t seed = 1;
  // Of pictures:
  std::string kind{};      // one of the task's sample_kinds(); empty: the first
  std::int64_t index = 0;  // of the validation example to start from
  double spread = 0.5;     // standard deviation around it
};

// A sample is text for the terminal, a grey picture, or a plot.
struct Sample {
  std::string text;
  Array picture{};  // (H, W) float32 in [0, 1], or empty
  // Draws the plot to a path that ends in .png or .svg; the text is then its numbers as CSV.
  std::function<void(const std::string& path)> plot{};
};

// What one attention of a model looked at: weights (H, T, S), and the tokens of its queries and
// keys. Of an image, weights (H, rows, columns) as its patches lie, without labels.
struct AttentionMaps {
  std::string path{};  // of the layer
  Array weights{};
  std::vector<std::string> queries{}, keys{};
  Array image{};  // (height, width), 0 white and 1 black, or empty
};

// Where a model puts the examples of a split: z (N, Z) float32, and their classes.
struct LatentSplit {
  std::string name;
  Array z;
  std::vector<std::int32_t> classes;
};
struct Latent {
  std::vector<LatentSplit> splits{};
  std::vector<std::string> class_names{};
};

// What a config's `task` selects: dataset, model, loss, metrics, and what a sample looks like.
class Task {
 public:
  virtual ~Task() = default;

  virtual Module& model() = 0;
  virtual const Dataset& training_data() = 0;
  virtual const Dataset& validation_data() = 0;
  virtual const Dataset* test_data() {
    return nullptr;
  }  // no part in choosing; null: there is none
  virtual Order order() const { return Order::shuffled; }  // of the training examples
  virtual Loss loss(const Batch& batch, const Pass& pass) = 0;

  // Adds what follows from the averages: "bits_per_char" from "loss".
  virtual void derive(Metrics&) const {}
  // Adds what the whole transcript of an evaluation says: "bleu".
  virtual void judge(const Transcript&, Metrics&) const {}
  virtual const char* unit() const { return "examples"; }  // of the speed
  virtual double units(const Batch& batch) const {
    return static_cast<double>(batch.inputs.dim(0));
  }

  virtual Sample sample(const SampleOptions& options) = 0;
  // What SampleOptions::kind may be, the default first; empty where there is no choice.
  virtual std::vector<std::string> sample_kinds() const { return {}; }
  // Of every attention while the model reads the prompt, and writes what it has to say to it.
  virtual std::vector<AttentionMaps> attention(const SampleOptions& options);
  virtual Latent latent_codes();  // of every example

  // What a checkpoint must keep so that the model can be used without its data: the vocabulary.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

// What a task is built from. `metadata` is a checkpoint's, or empty for a new run. `needs_data` is
// false where only a trained model is wanted.
struct TaskSetup {
  const Config& config;
  std::map<std::string, std::string> metadata{};
  bool needs_data = true;
};

struct TaskType {
  std::string help;
  std::vector<KeyInfo> keys;
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make;
};

// Tasks by name. Each one's source file registers it.
std::map<std::string, TaskType>& task_registry();

struct RegisterTask {
  RegisterTask(const std::string& name, TaskType type) { task_registry()[name] = std::move(type); }
};

// A config with the keys of its task. CONFIG is a path or the name of a shipped config.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides);
Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides);

std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace tapestry
