#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "layers/module.hpp"
#include "train/config/options.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"

namespace tapestry {

// A sum and the count by which it is divided when it is reported. Averages over batches add.
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
// Describes how a metric was computed if there are several ways, by name of the metric.
using Signatures = std::map<std::string, std::string>;

// The texts that a model generated in an evaluation, and the reference texts.
struct GeneratedTexts {
  std::vector<std::string> predictions{}, references{};
  std::int64_t cut_sources = 0;  // number of sources of which the model read only the beginning
};

// The result of one forward pass over a batch.
struct Loss {
  Tensor objective;            // a sum over the batch: the trainer divides it by the step's count
  MetricSums averages;         // reported metrics, always with "loss"
  GeneratedTexts generated{};  // in an evaluation of a task that generates texts
};

// How a forward pass runs.
struct Pass {
  bool training = false;
  std::int64_t step = 0;
  Random* noise = nullptr;  // noise of dropout in training, and of sampling
  // In an evaluation, the noise of each example, so that no metric depends on the division into
  // batches.
  std::span<Random> noise_of_examples{};
};

// The data sets, model, loss and metrics of a config's `task`. TaskSpec has what is known of a task
// without its data.
class Task {
 public:
  virtual ~Task() = default;

  virtual Module& model() = 0;
  virtual const Dataset& training_data() = 0;
  virtual const Dataset& validation_data() = 0;
  virtual const Dataset* test_data() { return nullptr; }   // null: the task has no test split
  virtual Order order() const { return Order::shuffled; }  // order of the training examples
  // Returns whether every micro-batch computes the same whole, as for the nodes of one graph.
  virtual bool is_computed_whole() const { return false; }
  virtual Loss loss(const Batch& batch, const Pass& pass) = 0;

  // Returns which of the data are not trained on, for a message at the beginning; or "".
  virtual std::string remark() const { return ""; }

  // Adds metrics that follow from the averages: "bits_per_char" from "loss".
  virtual void add_derived_metrics(Metrics&) const {}
  // Adds metrics of all texts of an evaluation: "bleu".
  virtual void add_corpus_metrics(const GeneratedTexts&, Metrics&) const {}
  virtual Signatures signatures() const { return {}; }  // signatures of derived and corpus metrics
  virtual const char* unit() const { return "examples"; }  // unit of the throughput
  virtual double units(const Batch& batch) const {
    return static_cast<double>(batch.inputs.dim(0));
  }

  // Returns what a checkpoint keeps so that the model can be used without its data: the vocabulary.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

// Returns the task as one of class T, or null if it is of another class.
template <class T, class AnyTask>
T* task_as(AnyTask& task) {
  return dynamic_cast<T*>(&task);
}

// The arguments of a task's constructor. `metadata` is a checkpoint's, or empty for a new run.
// `needs_data` is false if only a trained model is wanted.
struct TaskSetup {
  const Config& config;
  std::map<std::string, std::string> metadata{};
  bool needs_data = true;
  bool assumes_text = false;  // in place of a text that is missing: a plan needs only its size
};

// Returns the value of `name` in a checkpoint's metadata. Throws std::invalid_argument if it is
// missing.
const std::string& kept_value(const std::map<std::string, std::string>& metadata,
                              const std::string& name);

// A metric of a training or of an evaluation.
struct MetricInfo {
  enum class Better { neither, lower, higher };
  std::string name{};  // name as in metrics.jsonl, without "test_"
  std::string unit{};  // "nats per token"; empty: a share from 0 to 1, or a number without unit
  Better better = Better::neither;
  std::string meaning{};
  bool is_per_token = false;            // comparable only between models of the same tokens
  std::vector<std::string> settings{};  // comparable only if these keys have the same values
};

using TypedOptions = std::vector<std::pair<std::string, std::string>>;  // a name and its text

// A function that shows a trained model in one way, and the options that it takes on the command
// line. It takes the task as an object of the task's own class.
template <class Shown>
class Inspector {
 public:
  // None: `missing` is the message for tasks that have no such inspector.
  explicit Inspector(const char* missing) : missing_(missing) {}
  template <class OwnTask>
  Inspector(std::vector<KeyInfo> options, Shown (*show)(OwnTask&, const Options&))
      : options_(std::move(options)), show_([show](Task& task, const Options& given) {
          return show(own<OwnTask>(task), given);
        }) {}
  template <class OwnTask>
  Inspector(Shown (*show)(OwnTask&))
      : show_([show](Task& task, const Options&) { return show(own<OwnTask>(task)); }) {}

  explicit operator bool() const { return show_ != nullptr; }
  const std::vector<KeyInfo>& options() const { return options_; }

  // Shows the model of `task`. Throws InputError if there is no such inspector, or if one of the
  // options is unknown or out of its range.
  Shown show(Task& task, const TypedOptions& typed = {}) const {
    expect_input(show_ != nullptr, "{}", missing_);
    Options options(options_);
    for (const auto& [name, text] : typed) options.set(name, text);
    options.expect_all_used();
    return show_(task, options);
  }

 private:
  template <class OwnTask>
  static OwnTask& own(Task& task) {
    auto* own = task_as<OwnTask>(task);
    require(own != nullptr, "inspect: the task is not of the class that its spec makes");
    return *own;
  }

  const char* missing_ = "";
  std::vector<KeyInfo> options_{};
  std::function<Shown(Task& task, const Options& options)> show_{};
};

// All that the program knows of a task. Each task registers one, and no tool has another list.
struct TaskSpec {
  std::string name{}, help{};
  // Returns what the model of a config and a checkpoint's metadata is: "a character-level
  // transformer language model". Null: `help` says it.
  std::string (*describe)(const Config& config,
                          const std::map<std::string, std::string>& metadata) = nullptr;
  std::vector<KeyInfo> keys{};  // keys of this task, in addition to those that every task has
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make{};
  // Metrics of this task, in addition to those of every training.
  std::vector<MetricInfo> metrics{};
  Inspector<Sample> samples{"this run's model has no samples to show"};
  Inspector<ChatSession> chat{"this run's model generates no text; chat needs a language model"};
  Inspector<TokenDecoder> token_decoder{"this run's inputs are not tokens of a text"};
  Inspector<AttentionMaps> attention{"this run's model has no attention to draw"};
  Inspector<LatentCodes> latent_codes{"this run's model has no latent space to draw"};
  Inspector<ReportPanels> panels{"this run's model has nothing more to show"};
  Inspector<onnx::Models> onnx{
      "this run's model cannot be exported to ONNX; --format safetensors exports the weights of "
      "any "
      "model"};
  bool is_usable_in_programs = false;  // model.hpp has methods for it
};

// Returns the registered tasks by name.
std::map<std::string, TaskSpec>& task_registry();
const TaskSpec& spec_of(const Config& config);

// Registers a task when it is defined at namespace scope in the task's source. `spec` is called
// when tasks are first asked for: the keys of all sources exist by then.
struct RegisterTask {
  explicit RegisterTask(TaskSpec (*spec)());
};

// Constructs a task of class T: the `make` of its spec.
template <class T>
std::unique_ptr<Task> make_task_of(const TaskSetup& setup) {
  return std::make_unique<T>(setup);
}

// Returns the metric `name` of a task, "test_loss" being "loss": the task's own, or one that every
// training has. An unknown one has only its name.
MetricInfo metric_info(const std::string& task, const std::string& name);

// Returns the metrics that every training has.
const std::vector<MetricInfo>& common_metrics();

// Returns a config with the keys of its task, on top of its bases, the last of which is `beneath`
// if it is given. Reads a path or the name of a shipped config.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides,
                   const std::optional<ConfigDocument>& beneath = {});
// Does the same for a text, which can be based only on shipped configs.
Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides);
// Does the same for the text of Config::toml(), as checkpoints keep it.
Config resolved_config(const ConfigDocument& document, const std::vector<std::string>& overrides);
Config resolved_config(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides);

std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace tapestry
