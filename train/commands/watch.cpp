#include <chrono>
#include <filesystem>
#include <thread>

#include "data/file.hpp"
#include "train/commands/command.hpp"
#include "train/loop/progress.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"
#include "train/run/run.hpp"
#include "train/run/terminal.hpp"
#include "train/settings/keys.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

constexpr std::chrono::milliseconds between_looks(500);
constexpr int looks_for_a_test = 20;  // after the last evaluation: a test may follow
constexpr const char* per_second = "_per_s";

MetricsLine measured(const nlohmann::ordered_json& entry) {
  MetricsLine line{.step = entry["step"].get<std::int64_t>(),
                   .split = entry["split"].get<std::string>(),
                   .values = {},
                   .elapsed_s = entry["elapsed_s"].get<double>()};
  for (const auto& [name, value] : entry.items()) {
    if (name == "step" || name == "split" || name == "elapsed_s") continue;
    if (value.is_number()) line.values[name] = value.get<double>();
    if (value.is_string() && name.ends_with("_signature"))
      line.signatures[name.substr(0, name.size() - 10)] = value.get<std::string>();
  }
  return line;
}

class Watch final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(folder_);
    arguments.flag("--once", once_, "show what there is, and end");
  }

  int run() override {
    const Run run(folder_);
    expect_input(std::filesystem::exists(run.config()),
                 "{}: no run: it holds no config.toml; give the folder of one", folder_);
    const Config config = resolved_config(read_text(run.config()), run.config(), {});
    steps_ = config[key::steps];
    for (begin(run); !is_done();) {
      if (once_) break;
      std::this_thread::sleep_for(between_looks);
      std::error_code missing;
      const auto size = std::filesystem::file_size(run.metrics(), missing);
      if (!missing && static_cast<std::int64_t>(size) < reader_->end())
        begin(run);  // it was resumed, and what came later was cut
      else
        look();
    }
    if (progress_) progress_->draw();
    if (progress_ && live_columns() > 0) say("\n");
    return 0;
  }

 private:
  void begin(const Run& run) {
    reader_.emplace(run.metrics());
    progress_.reset();
    looks_since_last_ = -1;
    look();
  }

  // Shows what was measured since the last look.
  void look() {
    bool grew = false;
    while (reader_->next()) {
      const auto entry = parse_metrics_line(reader_->text());
      if (entry) show(measured(*entry));
      grew = true;
    }
    if (grew && progress_) progress_->draw();
    if (looks_since_last_ >= 0) ++looks_since_last_;
  }

  void show(const MetricsLine& line) {
    if (!line.values.contains("loss")) return;
    if (line.split == "train" && !progress_) make_progress(line);
    if (progress_ && (line.split != "train" || line.values.contains(unit_ + per_second)))
      progress_->write(line);
    if (line.split == "val" && line.step >= steps_) looks_since_last_ = 0;
    if (line.split == "test") looks_since_last_ = looks_for_a_test;
  }

  // The unit is that of the line's speed.
  void make_progress(const MetricsLine& line) {
    for (const auto& [name, value] : line.values)
      if (name.ends_with(per_second)) unit_ = name.substr(0, name.size() - 6);
    if (unit_.empty()) return;
    progress_.emplace(
        ProgressOptions{.steps = steps_, .unit = unit_, .quiet = false, .own_memory = false});
    progress_->resume_at(0, true);
  }

  bool is_done() const { return looks_since_last_ >= looks_for_a_test; }

  std::string folder_, unit_;
  bool once_ = false;
  std::int64_t steps_ = 0;
  int looks_since_last_ = -1;  // evaluation; below 0: it is yet to come
  std::optional<LineReader> reader_;
  std::optional<Progress> progress_;
};

const RegisterCommand<Watch> watch_command("watch", "follow a training that runs elsewhere");

}  // namespace
}  // namespace tapestry
