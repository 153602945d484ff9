#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "layers/module.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// A sum and what it is divided by when it is reported. Averages over batches add.
struct MetricSum {
  double sum = 0, count = 0;
  double value() const { return count > 0 ? sum / count : 0; }
  MetricSum& operator+=(const MetricSum& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
};
using MetricSums = std::map<std::string, MetricSum>;
using Metrics = std::map<std::string, double>;
// Of figures that can be computed in several ways, by their names: which way was taken.
using Signatures = std::map<std::string, std::string>;

// What a model wrote in an evaluation, and what it should have written.
struct GeneratedTexts {
  std::vector<std::string> predictions{}, references{};
  std::int64_t cut_sources = 0;  // of which the model read the beginning alone
};

// One pass of a model over a batch.
struct Loss {
  Tensor objective;     // a sum over the batch: the trainer divides it by the count of the step
  MetricSums averages;  // to report, "loss" always among them
  GeneratedTexts generated{};  // of a batch that is evaluated, where the task is to write
};

// When and with which random numbers a pass runs.
struct Pass {
  bool training = false;
  std::int64_t step = 0;
  Random* noise = nullptr;  // for dropout while training, and for what a model samples
  // In an evaluation, of each example its own, so that no figure depends on how they are batched.
  std::span<Random> noise_of_examples{};
};

// What a config's `task` selects: dataset, model, loss and metrics. What shows a trained model is a
// view (train/inspect/inspector.hpp).
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
  // One graph, say: whatever examples a part of a step has, it computes what the whole step does.
  virtual bool is_computed_whole() const { return false; }
  virtual Loss loss(const Batch& batch, const Pass& pass) = 0;

  // What of the data is not learnt from, to be said once; empty: nothing to say.
  virtual std::string remark() const { return ""; }

  // Adds what follows from the averages: "bits_per_char" from "loss".
  virtual void add_derived_metrics(Metrics&) const {}
  // Adds what the whole transcript of an evaluation says: "bleu".
  virtual void add_corpus_metrics(const GeneratedTexts&, Metrics&) const {}
  virtual Signatures signatures() const { return {}; }     // of figures that it derives or judges
  virtual const char* unit() const { return "examples"; }  // of the speed
  virtual double units(const Batch& batch) const {
    return static_cast<double>(batch.inputs.dim(0));
  }

  // What a checkpoint must keep so that the model can be used without its data: the vocabulary.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

// What a task is built from. `metadata` is a checkpoint's, or empty for a new run. `needs_data` is
// false where only a trained model is wanted.
struct TaskSetup {
  const Config& config;
  std::map<std::string, std::string> metadata{};
  bool needs_data = true;
  bool assumes_text = false;  // where a text is missing: for a plan, which needs its size alone
};

// Returns what a checkpoint's metadata keep as `name`. std::invalid_argument where it is missing.
const std::string& kept_value(const std::map<std::string, std::string>& metadata,
                              const std::string& name);

struct TaskType {
  std::string help;
  std::function<std::vector<KeyInfo>()> keys;  // its own, beside those that every task has
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make;
};

// Tasks by name. Each one's source file registers it.
std::map<std::string, TaskType>& task_registry();

// At namespace scope in its source file: registers the task T, which is made from a TaskSetup.
template <class T>
struct RegisterTask {
  RegisterTask(const std::string& name, std::string help,
               std::function<std::vector<KeyInfo>()> keys) {
    task_registry()[name] = {std::move(help), std::move(keys),
                             [](const TaskSetup& setup) { return std::make_unique<T>(setup); }};
  }
};

// A config with the keys of its task, on top of its bases, the last of which is `beneath` if there
// is one. CONFIG is a path or the name of a shipped config; a text by itself can be based on
// shipped configs alone.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides,
                   const std::optional<ConfigText>& beneath = {});
Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides);
// Of Config::toml(), as checkpoints keep it.
Config resolved_config(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides);

std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace tapestry
