#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/config/keys.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/callbacks/progress.hpp"

namespace tapestry {
namespace {

constexpr std::chrono::milliseconds between_looks(500);
// Number of looks at unchanged metrics after which it is checked whether a process still trains.
constexpr int looks_without_growth = 4;

class Watch final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("RUN", folder_, "the folder of a run");
    arguments.flag(
        "--once", once_,
        "print the current state and exit; the status is 0 also while the training runs");
    arguments.flag("--json", json_, "print one JSON object, and everything else to standard error");
  }

  int run() override {
    if (json_) leave_output_to_json();
    const Run run(folder_);
    expect_run(run, {run.config()});
    for (begin(run); !once_ && !is_done(run);) {
      std::this_thread::sleep_for(between_looks);
      std::error_code missing;
      const auto size = std::filesystem::file_size(run.metrics(), missing);
      if (reader_->end() == 0 || (!missing && static_cast<std::int64_t>(size) < reader_->end()))
        begin(run);  // the run is new, or was resumed, which removed later lines
      else
        look(run);
      progress_->expect_more(true);
    }
    const bool is_trained = is_trained_into(run);
    progress_->expect_more(is_trained);
    progress_->draw();
    if (live_columns() > 0) say("\n");
    if (is_trained && json_) print_state("running", last_step_);
    return is_trained ? 0 : say_outcome(run);
  }

 private:
  void begin(const Run& run) {
    steps_ = config_as_recorded(run)[key::steps];
    reader_.emplace(run.metrics());
    progress_.emplace(ProgressOptions{.steps = steps_, .quiet = false, .own_memory = false});
    progress_->on_begin(0, true);
    progress_->expect_more(is_trained_into(run));
    look(run);
  }

  // Shows the lines of metrics that were written since the last call.
  void look(const Run& run) {
    ++looks_since_growth_;
    while (reader_->next()) {
      looks_since_growth_ = 0;
      const auto entry = parse_metrics_line(reader_->text());
      if (!entry) continue;
      const MetricsLine line = shown_metrics(*entry);
      if (!line.values.contains("loss")) continue;
      if (line.split != "test")
        last_step_ = line.step;  // the test split's is that of the best model
      is_tested_ = line.split == "test";
      if (line.step > steps_)
        progress_->expect_steps(steps_ = std::max(line.step, config_as_recorded(run)[key::steps]));
      progress_->on_metrics(line);
    }
    if (looks_since_growth_ == 0 && live_columns() > 0) progress_->draw();
  }

  // Prints how the run ended, and returns the exit status for this outcome.
  int say_outcome(const Run& run) const {
    const std::vector<Session> sessions = read_sessions(run);
    const std::string ended =
        outcome(sessions, {.step = last_step_, .steps = steps_, .is_tested = is_tested_});
    say("{}: {}\n", printable(folder_), ended);
    const bool is_finished = ended.starts_with("finished") || sessions.empty();
    const bool is_stopped = ended.starts_with("stopped");
    const bool has_end = !sessions.empty() && sessions.back().end;
    if (json_)
      print_state(is_finished  ? "finished"
                  : is_stopped ? "stopped"
                               : "failed",
                  has_end ? std::max(last_step_, sessions.back().end->step) : last_step_);
    return is_finished ? 0 : is_stopped ? interrupted_status : failed_status;
  }

  void print_state(const char* state, std::int64_t step) const {
    print_json({{"run", folder_}, {"state", state}, {"step", step}, {"steps", steps_}});
  }

  bool is_done(const Run& run) {
    if (looks_since_growth_ < looks_without_growth) return false;
    looks_since_growth_ = 0;
    return !is_trained_into(run);
  }

  std::string folder_;
  bool once_ = false, json_ = false;
  std::int64_t steps_ = 0, last_step_ = 0;
  bool is_tested_ = false;
  int looks_since_growth_ = 0;
  std::optional<LineReader> reader_;
  std::optional<Progress> progress_;
};

const RegisterCommand<Watch> watch_command(
    "watch",
    "show the progress of a training of another process; exit status: 0 finished, 1 failed or "
    "killed, 130 stopped");

}  // namespace
}  // namespace tapestry
