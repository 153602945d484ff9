#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/options.hpp"
#include "train/inspect/inspected.hpp"
#include "train/plugin.hpp"
#include "train/task.hpp"

// How tasks are described, registered and shown. Tools know tasks from their TaskSpec alone.
namespace tapestry {

// The description of a metric of a training or an evaluation.
struct MetricInfo {
  enum class Better { neither, lower, higher };
  std::string name{};  // name as in metrics.jsonl, without "test_"
  std::string unit{};  // "nats per token"; empty: a fraction from 0 to 1, or a number without unit
  Better better = Better::neither;
  std::string meaning{};
  bool is_per_token = false;            // comparable only between models of the same tokens
  std::vector<std::string> settings{};  // comparable only if these keys have the same values
};

// Names of options, with their texts.
using TypedOptions = std::vector<std::pair<std::string, std::string>>;

// A function that shows a trained model in one way, and its command-line options. Its task argument
// has the task's own class.
template <class Shown>
class Inspector {
 public:
  // Constructs the inspector of a task whose models cannot be shown in this way: show() throws the
  // message `missing`.
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

  // Shows the model of `task`. Throws InputError if the task has no such inspector, and for an
  // option that is unknown, out of its range or unused.
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
    require(own != nullptr,
            "inspect: the task is not of the class that its spec makes; correct the spec");
    return *own;
  }

  const char* missing_ = "";
  std::vector<KeyInfo> options_{};
  std::function<Shown(Task& task, const Options& options)> show_{};
};

// Another task with whose models a training of a task can begin (--from), and how they differ.
struct Pretraining {
  std::string task{};                    // "language-model"; empty: there is none
  KeyInfo kind{};                        // a key of both tasks that has these values:
  std::string their_kind{}, own_kind{};  // "transformer", "decoder"
  std::string old_head{};                // module of that model that is left out
  std::string new_head{};                // module with initial values; it is always trained
};

// A kind of model of a task, by the settings that choose it.
struct ModelKind {
  std::string name{};                                     // in messages: "embeddings"
  std::vector<std::pair<std::string, Value>> settings{};  // model.kind, or what else tells it apart
  double learning_rate = 0;                               // with which Adam trains it well
};

// The description of a task. Each task registers one, and no other part of the program lists tasks.
struct TaskSpec {
  std::string name{}, help{};
  // Returns a description of the model of a config and a checkpoint's metadata: "a character-level
  // transformer language model". Null: `help` describes it.
  std::string (*describe)(const Config& config,
                          const std::map<std::string, std::string>& metadata) = nullptr;
  std::vector<KeyInfo> keys{};  // keys of this task, in addition to those that every task has
  std::function<std::unique_ptr<Task>(const TaskSetup&)> make{};
  // Sets the keys whose values are found in the data, such as the names of classes, by
  // Config::detect. Null: there are none.
  void (*detect)(Config& config) = nullptr;
  // Returns what this task finds at a path, for each kind of data that it reads. Null: the task
  // reads no files, or `tapestry init` does not know them.
  std::vector<Recognized> (*recognize)(const UserData& data) = nullptr;
  // Returns with which models a training can begin. A function, because an exception in the
  // initialization of a TaskSpec makes GCC 12 destroy a nested KeyInfo that does not exist yet.
  Pretraining (*pretraining)() = [] { return Pretraining(); };
  // Kinds of models, the cheapest first; `init` compares the first two. A function, as above.
  std::vector<ModelKind> (*kinds)() = [] { return std::vector<ModelKind>(); };
  // Metrics of this task, in addition to those of every training.
  std::vector<MetricInfo> metrics{};
  Inspector<Sample> samples{"this run's model has no samples to show; use a run of another task"};
  Inspector<Predictor> predictor{
      "this run's model predicts no examples of files; use a run of another task"};
  Inspector<ChatSession> chat{"this run's model generates no text; chat needs a language model"};
  Inspector<TokenDecoder> token_decoder{
      "this run's inputs are not tokens of a text; use a run of a language model"};
  Inspector<AttentionMaps> attention{
      "this run's model has no attention to draw; use a run of a transformer"};
  Inspector<LatentCodes> latent_codes{
      "this run's model has no latent space to draw; use a run of an autoencoder"};
  Inspector<ReportPanels> panels{
      "this run's model has nothing more to show; use a run of another task"};
  Inspector<onnx::Models> onnx{
      "this run's model cannot be exported to ONNX; --format safetensors exports the weights of "
      "any model"};
  // The file of the program or plug-in that registers the task, which tasks_by_name sets; empty:
  // Tapestry's library.
  std::string file{};
  bool reads_whole_data = false;     // `make` follows TaskSetup::whole_data
  bool predicts_whole_data = false;  // the predictor takes a task with all examples, as these
};

// Returns the tasks by name. Throws InputError if two have the same name, and for a TaskSpec with
// fields that cannot be used: names of other characters, no help, keys or options that exist
// already, defaults of keys that are not allowed, conditions on unknown keys.
std::map<std::string, TaskSpec> tasks_by_name(const std::vector<TaskSpec (*)()>& specs);
std::map<std::string, TaskSpec>& task_registry();  // the registered tasks
const TaskSpec& spec_of(const Config& config);

// A registration of a task, defined at namespace scope in the task's source. `spec` is called at
// the first use of the registry, when the keys of all sources exist.
struct RegisterTask {
  explicit RegisterTask(TaskSpec (*spec)());
};

// Constructs a task of class T; used as `make` of its spec.
template <class T>
std::unique_ptr<Task> make_task_of(const TaskSetup& setup) {
  return std::make_unique<T>(setup);
}

// Returns the metric `name` of a task: one of the task's own, or one that every training has;
// "test_loss" is "loss". An unknown metric has only its name.
MetricInfo metric_info(const std::string& task, const std::string& name);

// Throws InputError if expected.metric is neither "" nor the name of a metric of the config's task.
void expect_known_metric(const Config& config);

// Returns the metrics that every training has.
const std::vector<MetricInfo>& common_metrics();

// Returns the unit of a throughput, "rows" of "rows_per_s" (Task::unit()); "" of another metric.
std::string unit_of_throughput(const std::string& metric);

// Returns the config of a path or of the name of a shipped config, with what its task detects in
// the data. Keys that neither the config nor its bases set have the values of `beneath`, of which
// earlier ones have precedence. Throws InputError if there is no such config, for an invalid one,
// and if one of `beneath` is of another task.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides,
                   const std::vector<ConfigDocument>& beneath = {});
Config load_config(const ConfigDocument& document, const std::vector<std::string>& overrides,
                   const std::vector<ConfigDocument>& beneath = {});
// Returns the config of a text, which can be based only on shipped configs, without what is
// detected in data. Throws InputError for an invalid one.
Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides);
// Returns the config of a text of Config::toml(), as stored in checkpoints. Throws InputError for
// an invalid one.
Config resolved_config(const ConfigDocument& document, const std::vector<std::string>& overrides);
Config resolved_config(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides);

// Returns the config of such a text for tools that only read what was recorded. If its task or
// plug-in is not loaded, keys that are unknown have the values of the text.
Config config_as_recorded(const ConfigDocument& document);

// Returns the kind of model that a config has; nothing if it is none of TaskSpec::kinds.
std::optional<ModelKind> kind_of(const Config& config);
// Returns a sentence if the kind of model was set after the learning rate, as by --set on top of a
// config, and that is less than half or more than twice the one that fits the kind; else "".
std::string learning_rate_of_another_kind(const Config& config);

// Constructs the config's task, with adapters and fixed parameters (fine_tuning.hpp). Throws
// InputError for keys or data that do not fit and for two parameters of one name, and
// std::invalid_argument for damaged metadata.
std::unique_ptr<Task> make_task(const TaskSetup& setup);

}  // namespace tapestry
