#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

// Trainings in other C++ programs, which include <tapestry/training.hpp> and link to
// tapestry::tapestry. This header includes only the standard library, and its interface is as
// stable as that of model.hpp.
//
// A training takes the steps of `tapestry train` with the same config and data, with the same bits.
// It installs no signal handlers, prints nothing, and writes files in save() alone. Everything is
// state of the object, so that any number of trainings can run at once in threads of their own,
// with the same bits as alone, but for these settings of the process:
//   - the threads of a step: set_num_threads() of model.hpp. train.threads is not used. One loop at
//     a time uses further cores; that of another training then runs on its own thread;
//   - train.check_finite: it holds for all threads as the training that was constructed last set
//   it;
//   - the pool of memory: arrays that one training releases are used by others.
//
// Functions throw std::runtime_error for a config, data or checkpoint that do not fit, and for a
// training that fails; std::invalid_argument for a wrong argument; and std::bad_alloc if memory
// runs out. The messages have one line. They count rows, images and examples from 0 on, and say so.
namespace tapestry {

class Model;  // of <tapestry/model.hpp>

// What is trained: either a file or a text, with changes.
struct TrainingConfig {
  std::string path{};  // of a TOML file, or the name of a shipped config, as `tapestry train` takes
  std::string text{};  // TOML, which may be based on shipped configs
  std::vector<std::string> overrides{};  // "train.steps=100", applied last, as --set
  std::string from{};  // start from the weights and [model] of this run or checkpoint, as --from
};

// --- data in memory ---
//
// Data in memory have a name, and the reader of the task's data set opens them in place of
// data.path, which becomes "/memory/NAME". So they are read, checked and split as files are, and
// the task needs nothing of its own. They are read in the constructor of Training alone, and can be
// released after it.

// The content of a file: a text, a CSV, JSONL, IDX. It is not inflated.
struct MemoryFile {
  std::string name{};  // "prices.csv"; some readers tell formats by the ending
  std::string_view content{};
};

// M series by the rows of time, as a CSV with these columns and no column of times has them.
struct MemorySeries {
  std::vector<std::string> names{};  // M, all different
  // (rows, M), row by row, in the range of float32; NaN where nothing was measured.
  std::span<const double> values{};
};

// N images, as a folder of IDX files has them, but with any number of channels. Images in the order
// (N, height, width, channels) are refused.
struct MemoryImages {
  std::int64_t channels = 1, height = 0, width = 0;
  std::span<const float> pixels{};         // (N, channels, height, width), 0 to 1
  std::span<const std::int32_t> labels{};  // (N), from 0 on; for an autoencoder all may be 0
};

// Rows of texts, as a CSV with a header has them (data.header is set): examples of a table, or
// texts with labels.
struct MemoryTable {
  std::vector<std::string> columns{};
  std::span<const std::vector<std::string>> rows{};  // a cell for each column
};

// An array, row by row, of numbers or of integers.
struct BatchArray {
  std::vector<std::int64_t> shape{};     // the first is B, the number of examples
  std::vector<float> numbers{};          // one of these two
  std::vector<std::int32_t> integers{};  // tokens, classes
};

// The examples of a micro-batch, as the task's data set has them: tokens (B, T) and the next ones,
// -1 where there is no loss; images (B, channels · height · width) and classes (B); windows
// (B, context, M) and (B, horizon, K) of z-scored series, NaN where nothing was measured; …
struct TrainingBatch {
  BatchArray inputs{}, targets{};
  // Number of loss terms, at most that of targets; 0: of those that are neither -1 nor NaN.
  double count = 0;
};

// The data of a training: one of the members up to `table`, or none for those that the config
// describes (data.path, or synthetic ones).
struct TrainingData {
  std::vector<MemoryFile> files{};  // one, or those of a folder
  MemorySeries series{};            // task forecast
  MemoryImages images{};            // tasks image-classification and vae
  MemoryTable table{};              // tasks table and text-classification
  // Returns micro-batch `number`, which is step · train.micro_batches + i, from 0 on. Steps then
  // read no training examples of the data above, which still give shapes, scales, vocabulary and
  // the validation split. Resumed trainings ask for the same numbers. Tasks whose batches have
  // further parts (translation, graph, packed conversations) refuse it.
  std::function<TrainingBatch(std::int64_t number)> batches{};
};

// --- trainings ---

// The metrics of a step or an evaluation, by the names of metrics.jsonl.
struct TrainingMetrics {
  std::int64_t step = 0;  // number of steps so far
  std::string split{};    // "train" or "val"
  std::map<std::string, double> values{};
};

struct TrainingOptions {
  // Receives the lines of train(): the metrics of a step every train.log_every steps, and those of
  // each evaluation. It may call save(), model() and the model's methods; step(), evaluate(),
  // train() and resume() throw std::invalid_argument in it. An exception ends train().
  std::function<void(const TrainingMetrics& line)> on_metrics{};
  // Receives messages for the user, of train() and step(): a skipped step, an early end, one by
  // train.time_limit. Like `batches`, it may not call methods that compute, nor save().
  std::function<void(const std::string& message)> on_message{};
  // Ends train() after its step, and evaluations between two batches. evaluate() is ended by a stop
  // that is requested during it alone; a later train() takes no step.
  std::stop_token stop{};
  // Maximum total size of the arrays of this training in bytes: data, weights, gradients, optimizer
  // state, activations. The constructor tries a step and an evaluation in shapes only, and throws
  // std::runtime_error that names the setting to change; so does a later step with a larger batch.
  std::int64_t memory_limit = std::numeric_limits<std::int64_t>::max();
};

// A training in memory. An object that was moved from throws std::invalid_argument, as a method
// does that is called while another is not finished. One thread at a time may call its methods;
// models that it shares its weights with may be used by others meanwhile.
class Training final {
 public:
  // Reads the config and the data, and initializes the weights. Data that the reader of the task
  // does not take are refused by name.
  explicit Training(const TrainingConfig& config, const TrainingData& data = {},
                    TrainingOptions options = {});
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  const std::string& task() const;  // returns the name of the task: "forecast"
  std::string config() const;       // returns all settings as TOML
  std::int64_t steps() const;       // returns the number of steps so far

  // Takes a step, and returns its metrics. Throws std::invalid_argument after train.steps steps,
  // and std::runtime_error if the loss is not finite more often than train.max_bad_steps allows.
  TrainingMetrics step();

  // Returns the metrics of the validation split, with the weights that save() writes; without
  // values if it was stopped.
  TrainingMetrics evaluate();

  // Takes the steps up to train.steps, evaluates every train.eval_every steps and after the last
  // one, and ends early as train.early_stopping and train.time_limit say; the time counts from this
  // call. Returns the last evaluation; without values if it was stopped. It can be called again.
  TrainingMetrics train();

  // Writes a checkpoint, which `Model`, resume() and the commands of `tapestry` read, in place of a
  // file of this name at once. Throws std::runtime_error if a weight is not finite, or if the file
  // cannot be written, and std::invalid_argument for an empty path, as resume() does.
  void save(const std::string& path);

  // Continues the training of a checkpoint of save() or `tapestry train`, of the same config and
  // data; train.steps and what `tapestry train --resume` allows may differ. After an exception the
  // weights are undefined, unless resume() is called again.
  void resume(const std::string& path);

  // Returns a model that shares the trained weights, without a copy: each of its calls computes
  // with the weights of the last step, or of resume(). It may be used by any threads, also while
  // steps are taken, and outlive the training. A call reads weights of one step alone: the end of a
  // step, which changes them, waits for the calls that have begun, and later calls wait for it.
  // With averaged weights (train.average_decay, schedule-free optimizers) calls also wait for
  // evaluations and checkpoints, which need the averages; the model computes with the others.
  // Throws std::runtime_error for a task without a method of Model.
  Model model() const;

 private:
  struct State;
  State& state() const;
  std::unique_ptr<State> state_;
};

}  // namespace tapestry
