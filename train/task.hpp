#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "layers/module.hpp"

namespace tapestry {

class Config;

// A sum and the count by which it is divided when it is reported. Sums of batches are added.
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
Metrics values_of(const MetricSums& averages);
// Describes how a metric was computed if there are several ways, by name of the metric.
using Signatures = std::map<std::string, std::string>;

// The texts that a model generated in an evaluation, and the reference texts.
struct GeneratedTexts {
  std::vector<std::string> predictions{}, references{};
  std::int64_t cut_sources = 0;  // number of truncated sources
};

// The scores of the examples of an evaluation and their targets, for metrics that need all of them.
struct ScoredExamples {
  std::vector<double> scores{};  // of each example those of all classes
  std::vector<std::int32_t> targets{};
};

// The metrics of a prediction without a trained network, which a model should improve on.
struct Baseline {
  std::string name{};
  Metrics metrics{};  // which include "loss"
};
using Baselines = std::vector<Baseline>;
using JudgedSplits = std::span<const Dataset* const>;
// Returns a sentence that compares a model's loss, and its accuracy if it is known, with the best
// of its baselines, of which there is at least one: less than 1 % less loss or errors is not clear.
std::string comparison(const Baselines& baselines, const Metrics& metrics);

// The result of one forward pass over a batch.
struct Loss {
  Tensor objective;            // sum over the batch; the trainer divides it by the step's count
  MetricSums averages;         // reported metrics, which include "loss"
  GeneratedTexts generated{};  // texts of an evaluation, if the task generates texts
  ScoredExamples scored{};     // scores of an evaluation, if metrics need them
};

// The mode of a forward pass.
struct Pass {
  bool training = false;
  std::int64_t step = 0;    // number of training steps before this one
  Random* noise = nullptr;  // noise of dropout and sampling; null in an evaluation
  // Noise of each example in an evaluation, so that no metric depends on the division into batches.
  std::span<Random> noise_of_examples{};
};

// The data sets, model, loss and metrics of a config's `task`. TaskSpec describes a task without
// its data.
class Task {
 public:
  virtual ~Task() = default;

  virtual Module& model() = 0;
  virtual const Dataset& training_data() = 0;
  virtual const Dataset& validation_data() = 0;
  virtual const Dataset* test_data() { return nullptr; }  // null: the task has no test split
  // Returns the split whose examples inspectors have shown; null if they have read no data.
  virtual const Dataset* shown_data() { return nullptr; }
  virtual Order order() const { return Order::shuffled; }  // order of the training examples
  // Returns whether every micro-batch computes the same outputs, as for the nodes of one graph.
  virtual bool is_computed_whole() const { return false; }
  virtual Loss loss(const Batch& batch, const Pass& pass) = 0;
  // Returns groups of parameters, as optim.groups lists them, which precede those.
  virtual std::vector<std::string> groups() const { return {}; }

  // Returns a message about data that are not trained on, for the beginning of a training; or "".
  virtual std::string remark() const { return ""; }
  // Returns how many values of the data nobody measured; no metric counts them.
  virtual std::int64_t unmeasured() const { return 0; }

  // Adds metrics that follow from the averages ("bits_per_char" from "loss"), and removes averages
  // that serve only to compute these.
  virtual void add_derived_metrics(Metrics&) const {}
  // Adds metrics of all texts of an evaluation: "bleu".
  virtual void add_corpus_metrics(const GeneratedTexts&, Metrics&) const {}
  // Adds metrics of the scores of all examples of an evaluation: "auc".
  virtual void add_score_metrics(const ScoredExamples&, Metrics&) const {}
  virtual Signatures signatures() const { return {}; }  // signatures of derived and corpus metrics
  virtual const char* unit() const { return "examples"; }  // unit of the throughput
  virtual double units(const Batch& batch) const {         // returns the number of units in a batch
    return static_cast<double>(batch.inputs.dim(0));
  }

  // Returns for each of some splits the metrics of baselines, which are fitted to the training
  // split once; empty: there are none, as of synthetic data.
  virtual std::vector<Baselines> baselines(JudgedSplits) { return {}; }

  // Returns the metadata that a checkpoint stores so that the model can be used without its data,
  // such as the vocabulary.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

// Returns whether a metric cannot have this name, because the lines of metrics.jsonl have a member
// of this name, or the metrics of the test split do.
bool is_reserved_metric(std::string_view name);

// Returns task.loss(batch, pass). Throws InputError if its averages lack "loss" or have a reserved
// name, and if the batch's count is negative or not finite.
Loss loss_of(Task& task, const Batch& batch, const Pass& pass);

// Returns the task as class T, or null if it is of another class.
template <class T, class AnyTask>
T* task_as(AnyTask& task) {
  return dynamic_cast<T*>(&task);
}

// The arguments of a task's constructor. `metadata` is a checkpoint's, or empty for a new run.
// `needs_data` is false if only a trained model is needed.
struct TaskSetup {
  const Config& config;
  std::map<std::string, std::string> metadata{};
  bool needs_data = true;
  bool assumes_text = false;  // a plan assumes a missing text, of which it needs only the size
  // All examples of data.path are the validation split, for an evaluation of a trained model, whose
  // tokenizer, classes and scales are used. There is no other split: training_data() is not called.
  bool whole_data = false;
};

// Returns the examples of a split from `first` on, at most `most`.
Batch batch_from(const Dataset& data, std::int64_t first, std::int64_t most);

// Returns the value of `name` in a checkpoint's metadata. Throws std::invalid_argument if it is
// missing.
const std::string& kept_value(const std::map<std::string, std::string>& metadata,
                              const std::string& name);

// The error for a configured model, or a step or evaluation of it, that does not fit into memory.
class ModelTooLarge final : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace tapestry
