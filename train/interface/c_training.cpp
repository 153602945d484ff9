#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/clock.hpp"
#include "autograd/kernels/matmul.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "train/commands/training_config.hpp"
#include "train/config/keys.hpp"
#include "train/interface/calls.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/lines.hpp"
#include "train/run/program_message.hpp"
#include "train/run/run.hpp"
#include "train/run/version.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/training.hpp"
#include "train/training.hpp"

namespace tapestry {
namespace {

// Passes lines to a function of a C program, until it returns 0.
class Lines {
 public:
  Lines(tapestry_take_text take, void* user) : take_(take), user_(user) {}

  // Returns whether to continue.
  bool pass(const std::string& line) {
    if (take_ && continues_) continues_ = take_(user_, line.c_str(), line.size()) != 0;
    return continues_;
  }
  bool pass_message(const std::string& message) {
    return pass(JsonValue{{"message", message_for_program(message)}}.dump(
        -1, ' ', false, JsonValue::error_handler_t::replace));
  }

 private:
  tapestry_take_text take_;
  void* user_;
  bool continues_ = true;
};

// The callback of a training into a folder, which `stop` ends.
class PassLines final : public Callback {
 public:
  PassLines(Lines& lines, std::atomic<bool>& stop) : lines_(lines), stop_(stop) {}
  void on_metrics(const MetricsLine& line) override {
    if (!lines_.pass(line.json())) stop_ = true;
  }
  void on_message(const std::string& message) override {
    if (!lines_.pass_message(message)) stop_ = true;
  }

 private:
  Lines& lines_;
  std::atomic<bool>& stop_;
};

void require_training(const char* function, const tapestry_training* training) {
  require_given(function, training);
  require(training->struct_size == sizeof(tapestry_training),
          "{}: struct_size = {}; expected {}; begin the training as TAPESTRY_TRAINING", function,
          training->struct_size, sizeof(tapestry_training));
  require_given(function, training->config);
}

std::vector<std::string> overrides_of(const char* function, const tapestry_training& training) {
  return texts_of(function, training.overrides, training.override_count);
}

// Throws FileError if no file can be written at a path, before a training has run for it.
void expect_writable(const char* function, const std::string& path) {
  require(!path.empty(), "{}: the path of the checkpoint is empty; expected that of a file",
          function);
  require(!is_folder(path), "{}: {}: is a folder; give the path of a file for the checkpoint",
          function, path);
  const std::string trial = new_temporary(path);
  File(trial, O_WRONLY | O_CREAT | O_EXCL, path).close();
  ::unlink(trial.c_str());
}

constexpr std::size_t most_elements = std::size_t{1} << 40;

std::string text_or_none(const char* text) { return text ? text : ""; }

// The data of a C program as those of Training, which refer to them.
struct CData {
  explicit CData(const tapestry_data& given) {
    const char* const function = "train_in_memory";
    require(given.struct_size == sizeof(tapestry_data),
            "{}: struct_size = {}; expected {}; begin the data as TAPESTRY_DATA", function,
            given.struct_size, sizeof(tapestry_data));
    const std::vector<std::string> names = texts_of(function, given.names, given.name_count);
    const bool has_images = given.pixels || given.images > 0;
    require(bool(given.contents) + bool(given.series) + bool(given.cells) + has_images == 1 ||
                (names.empty() && given.rows == 0),
            "{}: expected contents, series, cells or pixels; set one of them", function);
    if (given.contents) {
      require_given(function, given.bytes);
      for (std::size_t i = 0; i < names.size(); ++i) {
        require_given(function, given.contents[i]);
        data.files.push_back({names[i], std::string_view(given.contents[i], given.bytes[i])});
      }
    }
    require(given.rows <= most_elements / std::max<std::size_t>(1, names.size()),
            "{}: {} rows of {} columns; expected at most 2^40 cells", function, given.rows,
            names.size());
    if (given.series) data.series = {names, {given.series, given.rows * names.size()}};
    if (given.cells) {
      const auto cells = texts_of(function, given.cells, given.rows * names.size());
      for (auto cell = cells.begin(); cell != cells.end(); cell += std::ssize(names))
        rows.emplace_back(cell, cell + std::ssize(names));
      data.table = {names, rows};
    }
    if (has_images) add_images(given);
  }

  TrainingData data{};

 private:
  void add_images(const tapestry_data& given) {
    std::size_t pixels = 1;
    for (const std::size_t extent : {given.images, given.channels, given.height, given.width}) {
      require(extent > 0 && extent <= most_elements / pixels,
              "train_in_memory: {} images of {} x {} x {}; expected 1 to 2^40 pixels in all",
              given.images, given.channels, given.height, given.width);
      pixels *= extent;
    }
    require_given("train_in_memory", given.pixels);
    if (!given.labels) labels.resize(given.images);
    data.images = {.channels = static_cast<std::int64_t>(given.channels),
                   .height = static_cast<std::int64_t>(given.height),
                   .width = static_cast<std::int64_t>(given.width),
                   .pixels = {given.pixels, pixels},
                   .labels = given.labels ? std::span(given.labels, given.images)
                                          : std::span<const std::int32_t>(labels)};
  }

  std::vector<std::vector<std::string>> rows{};
  std::vector<std::int32_t> labels{};
};

}  // namespace
}  // namespace tapestry

using namespace tapestry;

tapestry_code tapestry_train(const tapestry_training* training, const char* folder, int resume,
                             tapestry_take_text take, void* user, const char** run) {
  return guarded([&] {
    require_training("train", training);
    require_engine_of_this_build();
    TrainingArguments arguments;
    arguments.config = training->config;
    arguments.from = text_or_none(training->from);
    arguments.overrides = overrides_of("train", *training);
    Config config = arguments.read();
    const Run into(folder ? folder : Run::default_folder(config[key::name], resume != 0));
    if (resume) config = arguments.read({}, &into);
    check_training_keys(config);
    std::atomic<bool> stop = false;
    Lines lines(take, user);
    PassLines pass(lines, stop);
    const UseMatmulPrecision precision(config[key::precision]);
    train_into(into, config,
               {.resume = resume != 0, .silent = true, .callbacks = {&pass}, .stop = &stop});
    give_text(into.folder(), run);
  });
}

tapestry_code tapestry_train_in_memory(const tapestry_training* training, const tapestry_data* data,
                                       const char* checkpoint, tapestry_take_text take, void* user,
                                       tapestry_model** model) {
  return guarded([&] {
    require_training("train_in_memory", training);
    require_engine_of_this_build();
    if (checkpoint) expect_writable("train_in_memory", checkpoint);
    const CData given(data ? *data : tapestry_data TAPESTRY_DATA);
    std::stop_source stop;
    Lines lines(take, user);
    const double started_s = now_s();
    TrainingOptions options{.stop = stop.get_token()};
    options.on_metrics = [&](const TrainingMetrics& line) {
      const MetricsLine passed{.step = line.step,
                               .split = line.split,
                               .values = line.values,
                               .elapsed_s = now_s() - started_s};
      if (!lines.pass(passed.json())) stop.request_stop();
    };
    options.on_message = [&](const std::string& message) {
      if (!lines.pass_message(message)) stop.request_stop();
    };
    Training trained({.path = training->config,
                      .overrides = overrides_of("train_in_memory", *training),
                      .from = text_or_none(training->from)},
                     given.data, options);
    std::unique_ptr<tapestry_model> shared;
    if (model) shared.reset(new tapestry_model{trained.model()});
    trained.train();
    if (checkpoint) trained.save(checkpoint);
    if (model) *model = shared.release();
  });
}
