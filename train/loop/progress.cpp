#include "train/loop/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

namespace tapestry {

using std::chrono::duration;

std::string show(const Metrics& values) {
  std::string text = fmt::format("loss {:.4f}", values.at("loss"));
  for (const auto& [name, value] : values)
    if (name != "loss") text += fmt::format("  {} {:.4g}", name, value);
  return text;
}

std::string show(const Metrics& means, const Metrics& deviations) {
  const auto one = [&](const std::string& name) {
    return fmt::format("{} {:.4f} ± {:.4f}", name, means.at(name), deviations.at(name));
  };
  std::string text = one("loss");
  for (const auto& [name, mean] : means)
    if (name != "loss") text += "  " + one(name);
  return text;
}

Progress::Progress(std::int64_t first_step, std::int64_t steps, bool quiet)
    : first_step_(first_step),
      steps_(steps),
      quiet_(quiet),
      terminal_(isatty(STDOUT_FILENO) != 0),
      start_(Clock::now()),
      last_shown_(start_) {}

std::string Progress::time_left(std::int64_t step) const {
  const double spent = duration<double>(Clock::now() - start_).count();
  const double left =
      spent * static_cast<double>(steps_ - step) / static_cast<double>(step - first_step_);
  const auto seconds = static_cast<std::int64_t>(left + 0.5);
  return seconds < 3600
             ? fmt::format("{}:{:02}", seconds / 60, seconds % 60)
             : fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

void Progress::clear_line() {
  if (line_shown_) fmt::print("\r\033[K");
  line_shown_ = false;
}

void Progress::training(const MetricsLine& line, const std::string& unit) {
  const Clock::time_point now = Clock::now();
  const double since = duration<double>(now - last_shown_).count();
  if (quiet_ || since < (terminal_ ? 0.1 : 5.0)) return;
  last_shown_ = now;
  clear_line();
  fmt::print("step {}/{}  loss {:.4f}  {:.0f} {}/s  {} left{}", line.step, steps_,
             line.values.at("loss"), line.values.at(unit + "_per_s"), unit, time_left(line.step),
             terminal_ ? "" : "\n");
  line_shown_ = terminal_;
  std::fflush(stdout);
}

void Progress::evaluation(const MetricsLine& line) {
  if (quiet_) return;
  clear_line();
  fmt::print("step {}/{}  validation: {}\n", line.step, steps_, show(line.values));
  std::fflush(stdout);
}

void Progress::profile(const std::string& report) {
  clear_line();
  fmt::print("{}", report);
  std::fflush(stdout);
}

void Progress::finish() {
  clear_line();
  std::fflush(stdout);
}

}  // namespace tapestry
