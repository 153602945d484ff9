#include "train/loop/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "train/loop/evaluation.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {

using std::chrono::duration;

Progress::Progress(const ProgressOptions& options)
    : options_(options), terminal_(isatty(STDOUT_FILENO) != 0) {}

void Progress::resume_at(std::int64_t step, bool) {
  first_step_ = step;
  start_ = last_shown_ = Clock::now();
}

void Progress::write(const MetricsLine& line) {
  if (options_.quiet) return;
  if (line.split == "train")
    training(line);
  else
    evaluation(line);
}

std::string Progress::time_left(std::int64_t step) const {
  const double spent = duration<double>(Clock::now() - start_).count();
  const double left =
      spent * static_cast<double>(options_.steps - step) / static_cast<double>(step - first_step_);
  const auto seconds = static_cast<std::int64_t>(left + 0.5);
  return seconds < 3600
             ? fmt::format("{}:{:02}", seconds / 60, seconds % 60)
             : fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

void Progress::clear_line() {
  if (line_shown_) erase_line();
  line_shown_ = false;
}

void Progress::training(const MetricsLine& line) {
  const std::string& unit = options_.unit;
  const Clock::time_point now = Clock::now();
  const double since = duration<double>(now - last_shown_).count();
  if (since < (terminal_ ? 0.1 : 5.0)) return;
  last_shown_ = now;
  clear_line();
  say("step {}/{}  loss {:.4f}  {:.0f} {}/s  {} left{}", line.step, options_.steps,
      line.values.at("loss"), line.values.at(unit + "_per_s"), unit, time_left(line.step),
      terminal_ ? "" : "\n");
  line_shown_ = terminal_;
  std::fflush(stdout);
}

void Progress::evaluation(const MetricsLine& line) {
  clear_line();
  say("step {}/{}  {}: {}\n", line.step, options_.steps,
      line.split == "test" ? "test of the best" : "validation", show(line.values, line.signatures));
  std::fflush(stdout);
}

void Progress::note(const std::string& text) {
  clear_line();
  say("{}", text);
  std::fflush(stdout);
}

void Progress::finish() {
  clear_line();
  std::fflush(stdout);
}

}  // namespace tapestry
