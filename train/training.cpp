#include "train/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <optional>

#include "autograd/buffer_pool.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/fair_lock.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/memory_account.hpp"
#include "data/memory_folder.hpp"
#include "train/config/keys.hpp"
#include "train/model.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/program_message.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// --- data in memory ---

template <class T>
Array array_of(std::span<const T> values, const Shape& shape) {
  return Array::of(std::vector<T>(values.begin(), values.end()), shape);
}

SeriesInMemory series_of(const MemorySeries& given) {
  const std::int64_t M = std::ssize(given.names), count = std::ssize(given.values);
  require(M > 0 && count >= 2 * M && count % M == 0,
          "Training: {} values of {} series; expected one of each in two or more rows", count, M);
  for (const std::string& name : given.names)
    require(std::ranges::count(given.names, name) == 1,
            "Training: two series are named {:?}; expected different names", name);
  return {given.names, array_of(given.values, {count / M, M})};
}

ImagesInMemory images_of(const MemoryImages& given) {
  const auto [channels, height, width, pixels, labels] = given;
  const std::int64_t N = std::ssize(labels);
  require(N > 0 && channels > 0 && height > 0 && width > 0 &&
              std::ssize(pixels) == N * channels * height * width,
          "Training: {} pixels and {} labels of images of {} x {} x {}; expected N images and N "
          "labels",
          pixels.size(), N, channels, height, width);
  constexpr std::int64_t most_colors = 4;
  require(channels <= most_colors || width > most_colors,
          "Training: images of {} channels, {} x {}; expected the order (N, channels, height, "
          "width); transpose images (N, height, width, channels)",
          channels, height, width);
  return {array_of(pixels, {N, channels, height, width}), {labels.begin(), labels.end()}};
}

void append_row(std::string& csv, std::span<const std::string> cells) {
  for (const std::string& cell : cells) {
    csv += &cell == cells.data() ? "\"" : ",\"";
    for (const char c : cell) csv.append(c == '"' ? 2 : 1, c);
    csv += '"';
  }
  csv += '\n';
}

std::string csv_of(const MemoryTable& table) {
  require(!table.columns.empty() && !table.rows.empty(),
          "Training: a table of {} columns and {} rows; expected at least one of each",
          table.columns.size(), table.rows.size());
  std::string csv;
  append_row(csv, table.columns);
  for (const std::vector<std::string>& row : table.rows) {
    require(row.size() == table.columns.size(),
            "Training: row {} (from 0) of the table has {} cells; expected {}, one for each column",
            &row - table.rows.data(), row.size(), table.columns.size());
    append_row(csv, row);
  }
  return csv;
}

// The file that has the table of a program.
constexpr const char* table_name = "table.csv";

// Returns a message that names the rows of this table, from 0 on, by lines of its file, of which a
// cell may have several.
std::string with_rows(std::string message, const MemoryTable& table) {
  const std::string place = fmt::format("/memory/{}: ", table_name), line = "line ";
  for (auto at = message.find(place); at != message.npos; at = message.find(place, at)) {
    message.replace(at, place.size(), "table in memory: ");
    at += std::string_view("table in memory: ").size();
    if (message.compare(at, line.size(), line) != 0) continue;
    std::int64_t left = 0;  // lines to the end of the message's line
    const char* digits = message.data() + at + line.size();
    const char* end = std::from_chars(digits, message.data() + message.size(), left).ptr;
    std::string row = "the columns";
    const auto lines_of = [](std::span<const std::string> cells) {
      std::int64_t lines = 1;
      for (const std::string& cell : cells) lines += std::ranges::count(cell, '\n');
      return lines;
    };
    left -= lines_of(table.columns);
    for (std::size_t i = 0; left > 0 && i < table.rows.size(); left -= lines_of(table.rows[i++]))
      row = fmt::format("row {} (from 0)", i);
    message.replace(at, end - message.data() - at, row);
  }
  return message;
}

// The data of a program while they are read.
struct GivenData {
  explicit GivenData(const TrainingData& data) {
    has_table = !data.table.columns.empty() || !data.table.rows.empty();
    const bool has_series = !data.series.values.empty() || !data.series.names.empty(),
               has_images = !data.images.pixels.empty() || !data.images.labels.empty() ||
                            data.images.height != 0 || data.images.width != 0;
    const int kinds = !data.files.empty() + has_series + has_images + has_table;
    require(kinds <= 1, "Training: {} of files, series, images and table; expected one of them",
            kinds);
    for (const MemoryFile& file : data.files) folder.add(file.name, file.content);
    if (has_series) folder.add("series", series_of(data.series));
    if (has_images) folder.add("images", images_of(data.images));
    if (has_table) folder.add(table_name, std::string_view(csv = csv_of(data.table)));
    is_there = kinds > 0;
  }

  bool is_there = false, has_table = false;
  std::string csv{};
  MemoryFolder folder{};
};

// --- batches of a program ---

Array array_of(const char* name, const BatchArray& given, const Array& like) {
  std::int64_t size = given.shape.empty() ? 0 : 1;
  for (const std::int64_t extent : given.shape) size *= std::max<std::int64_t>(extent, 0);
  const bool has_integers = like.dtype() == DType::int32;
  const std::int64_t count = has_integers ? std::ssize(given.integers) : std::ssize(given.numbers);
  require(std::ssize(given.shape) == like.rank() && size > 0 && count == size,
          "batches: {}: {} {} of shape ({}); expected as many as the shape has, which is like {} "
          "with any number of examples",
          name, count, has_integers ? "integers" : "numbers", fmt::join(given.shape, ", "),
          to_string(like.shape()));
  const Shape shape(given.shape.data(), given.shape.data() + given.shape.size());
  return has_integers ? array_of(std::span(given.integers), shape)
                      : array_of(std::span(given.numbers), shape);
}

// Returns the number of targets that have a loss.
double count_of(const BatchArray& targets) {
  const auto is_number = [](float value) { return !std::isnan(value); };
  return static_cast<double>(std::ranges::count_if(targets.numbers, is_number) +
                             std::ssize(targets.integers) -
                             std::ranges::count(targets.integers, ignored_target));
}

// Returns the function that takes batches from a program. Throws InputError if batches of the task
// have auxiliary inputs.
Trainer::GetBatch batches_from(const std::function<TrainingBatch(std::int64_t number)>& get,
                               Task& task, const Config& config) {
  const Batch like = batch_from(task.training_data(), 0, 1);
  config.expect(!like.has_auxiliary(), key::task,
                "its batches have auxiliary inputs, which a function cannot give; give the data");
  return [get, like](std::int64_t number) -> Batch {
    const TrainingBatch given = get(number);
    const auto most =
        static_cast<double>(given.targets.numbers.size() + given.targets.integers.size());
    require(given.count >= 0 && given.count <= most,
            "batches: count = {}; expected 0 to {}, the number of targets", given.count, most);
    Batch batch{.inputs = array_of("inputs", given.inputs, like.inputs),
                .targets = array_of("targets", given.targets, like.targets),
                .count = given.count > 0 ? given.count : count_of(given.targets)};
    require(batch.inputs.dim(0) == batch.targets.dim(0),
            "batches: {} inputs and {} targets; expected one target for each input",
            batch.inputs.dim(0), batch.targets.dim(0));
    return batch;
  };
}

// --- the config ---

Config config_from(const TrainingConfig& given, const GivenData& data) {
  require(given.path.empty() != given.text.empty(),
          "Training: expected either the path or the text of a config");
  std::vector<std::string> settings = given.overrides;
  std::vector<ConfigDocument> beneath;
  const auto set = [&](const Key<std::string>& key, const std::string& value) {
    settings.push_back(fmt::format("{}={}", key.name, to_toml(Value(value))));
  };
  if (!given.from.empty()) {
    set(key::from, given.from);
    beneath.push_back(model_settings(given.from));
  }
  if (data.is_there) set(key::data_path, data.folder.path());
  const auto load = [&] {
    return given.text.empty()
               ? load_config(given.path, settings, beneath)
               : load_config(ConfigDocument("config", given.text), settings, beneath);
  };
  if (data.has_table) {  // its columns have names, which are not to be detected in its cells
    constexpr const char* header = "data.header";
    const UseMemoryFolder without_data(nullptr);
    if (load().has(header)) settings.push_back(fmt::format("{}=\"yes\"", header));
  }
  Config config = load();
  check_training_keys(config);
  return config;
}

}  // namespace

// The call of a training's method that is not finished, which excludes others: the functions of the
// program that it calls, and other threads, must wait for its end.
class MethodCalls final {
 public:
  // A guard of a call. Throws std::invalid_argument while there is another.
  class Begin final {
   public:
    Begin(MethodCalls& calls, const char* method) : calls_(calls), before_(calls.method_.load()) {
      const bool may_begin = before_ == nullptr || (calls.is_paused_ && is_save(method));
      require(may_begin && calls.method_.compare_exchange_strong(before_, method),
              "{}: {}() of this training is not finished; call {}() after it, not in its functions",
              method, before_ ? before_ : "a method", method);
    }
    ~Begin() { calls_.method_ = before_; }
    Begin(const Begin&) = delete;
    Begin& operator=(const Begin&) = delete;

   private:
    static bool is_save(std::string_view method) { return method == "save"; }
    MethodCalls& calls_;
    const char* before_;
  };

  // A guard within a call, between two steps, where save() may be called.
  class Pause final {
   public:
    explicit Pause(MethodCalls& calls) : calls_(calls) { calls_.is_paused_ = true; }
    ~Pause() { calls_.is_paused_ = false; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    MethodCalls& calls_;
  };

 private:
  std::atomic<const char*> method_ = nullptr;
  std::atomic<bool> is_paused_ = false;
};

namespace {

// A callback that passes lines and messages to a program.
class PassToProgram final : public Callback {
 public:
  PassToProgram(const TrainingOptions& options, MethodCalls& calls)
      : options_(options), calls_(calls) {}
  void on_metrics(const MetricsLine& line) override {
    const MethodCalls::Pause pause(calls_);
    if (options_.on_metrics) options_.on_metrics({line.step, line.split, line.values});
  }
  void on_message(const std::string& message) override {
    if (options_.on_message) options_.on_message(message_for_program(message));
  }

 private:
  const TrainingOptions& options_;
  MethodCalls& calls_;
};

}  // namespace

struct Training::State {
  State(const TrainingConfig& given, const TrainingData& data, TrainingOptions chosen)
      : State(given, data, GivenData(data), std::move(chosen)) {}

  State(const TrainingConfig& given, const TrainingData& data, const GivenData& memory,
        TrainingOptions chosen)
      : options(std::move(chosen)), config([&] {
          const UseMemoryFolder folder(&memory.folder);
          return config_from(given, memory);
        }()) {
    require(options.memory_limit > 0, "Training: memory_limit is {}; expected more than 0 bytes",
            options.memory_limit);
    if (options.memory_limit < std::numeric_limits<std::int64_t>::max())
      account = std::make_shared<MemoryAccount>(options.memory_limit);
    try {
      const InUse in_use = use("Training");
      const UseMemoryFolder folder(&memory.folder);
      task = begin_task(config);
      config.expect(!memory.is_there || memory.folder.was_opened(), key::task,
                    "has not read the data in memory; check data.kind, or give {} no data",
                    "this task");
      if (data.batches) get_batch = batches_from(data.batches, *task, config);
      if (account) expect_fitting();
      begin(nullptr);
    } catch (const OutOfMemory& error) {
      throw ModelTooLarge(fmt::format("{}; raise the limit, or use less data", error.what()));
    }
  }

  // What a method of this object uses on the calling thread.
  struct InUse {
    MethodCalls::Begin call;
    UseMatmulPrecision precision;
    UseMemoryAccount account;
  };
  InUse use(const char* method) {
    require(!lock->is_read_here(),
            "{}: called within a call of the model that shares the weights; end that call first",
            method);
    return {MethodCalls::Begin(calls, method), UseMatmulPrecision(config[key::precision]),
            UseMemoryAccount(account)};
  }

  // Forgets a time limit that ended train().
  void clear_stop() {
    stop = false;
    if (options.stop.stop_requested()) stop = true;  // also if it was requested meanwhile
  }

  // Tries a step and an evaluation of one batch. Throws ModelTooLarge or OutOfMemory if one does
  // not fit.
  void expect_fitting() {
    {
      const DryRun dry_run;
      Trainer tried(*task, config, Run(""), nullptr, stop, ranks);
      tried.step();
      evaluate_batch(*task, task->validation_data(), EvaluationOptions(config), 0);
    }
    forget_reserved_memory();
  }

  // Begins a training with the weights of the task, or with those of a checkpoint.
  void begin(const Checkpoint* checkpoint) {
    const std::unique_lock weights(*lock);
    trainer.reset();
    trainer.emplace(*task, config, Run(""), checkpoint, stop, ranks);
    trainer->share_weights(*lock);
    if (get_batch) trainer->take_batches_from(get_batch);
    trainer->add(limit_time(config, trainer->state(), stop,
                            [this](const std::string& message) { trainer->log(message); }));
    trainer->add(std::make_unique<PassToProgram>(options, calls));
  }

  TrainingOptions options;
  MethodCalls calls{};
  Config config;
  std::shared_ptr<MemoryAccount> account{};
  std::shared_ptr<FairLock> lock = std::make_shared<FairLock>();
  std::shared_ptr<Task> task{};
  Trainer::GetBatch get_batch{};
  Ranks ranks{};
  std::atomic<bool> stop = false;  // set by the program, or by the time limit of train()
  std::stop_callback<std::function<void()>> on_stop{options.stop, [this] { stop = true; }};
  std::optional<Trainer> trainer{};
};

Training::Training(const TrainingConfig& config, const TrainingData& data, TrainingOptions options)
    : state_(for_program([&] {
        try {
          return std::make_unique<State>(config, data, std::move(options));
        } catch (const InputError& error) {
          throw InputError(with_rows(error.what(), data.table));
        }
      })) {}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;

Training::State& Training::state() const {
  require(state_ != nullptr, "Training: was moved to another object; use that one");
  return *state_;
}

const std::string& Training::task() const { return state().config[key::task]; }
std::string Training::config() const { return state().config.toml(); }
std::int64_t Training::steps() const { return state().trainer->state().step; }

TrainingMetrics Training::step() {
  const auto in_use = state().use("step");
  const std::int64_t most = state().config[key::steps];
  require(steps() < most, "step: all {} steps of train.steps have been taken; raise it", most);
  Trainer& trainer = *state().trainer;
  const MetricSums averages = for_program([&] { return trainer.step(); });
  const MetricsLine line = trainer.training_line(averages);
  return {line.step, line.split, line.values};
}

TrainingMetrics Training::evaluate() {
  const auto in_use = state().use("evaluate");
  state().stop = false;  // a stop of train() does not end what is called after it
  const MetricsLine line = for_program([&] { return state().trainer->evaluation_line(); });
  return {line.step, line.split, line.values};
}

TrainingMetrics Training::train() {
  const auto in_use = state().use("train");
  state().clear_stop();
  Metrics last = for_program([&] { return state().trainer->train(); });
  return {steps(), "val", std::move(last)};
}

void Training::save(const std::string& path) {
  const auto in_use = state().use("save");
  require(!path.empty(), "save: the path is empty; expected that of a file");
  state().trainer->write_checkpoint([&](const auto& parts) { write_file_atomically(path, parts); });
}

void Training::resume(const std::string& path) {
  const auto in_use = state().use("resume");
  require(!path.empty(), "resume: the path is empty; expected that of a checkpoint");
  for_program([&] {
    const Checkpoint checkpoint = load_checkpoint_metadata(path);
    expect_resumable(Run(path), checkpoint, state().config);
    expect_input(checkpoint.metadata == state().task->metadata(),
                 "{}: was trained with another vocabulary, scale or classes than these data give; "
                 "give its data",
                 path);
    state().begin(&checkpoint);
  });
}

Model Training::model() const { return Model::of(state().config, state().task, state().lock); }

}  // namespace tapestry
