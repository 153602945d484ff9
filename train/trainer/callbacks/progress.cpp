#include "train/trainer/callbacks/progress.hpp"

#include <fmt/core.h>

#include <cmath>

#include "autograd/clock.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/status_line.hpp"

namespace tapestry {

namespace {
constexpr std::int64_t plain_columns = 200;  // of a line that is not on a terminal
constexpr std::size_t most_losses = 1024;    // behind a curve, which is drawn ten times a second

// {"tokens", 21355.2} of "tokens_per_s".
std::pair<std::string, double> speed_of(const MetricsLine& line) {
  constexpr std::string_view ending = "_per_s";
  for (const auto& [name, value] : line.values)
    if (name.ends_with(ending)) return {name.substr(0, name.size() - ending.size()), value};
  return {"steps", 0};
}

}  // namespace

Progress::Progress(const ProgressOptions& options) : options_(options) {}

void Progress::on_begin(std::int64_t step, bool) {
  if (step == 0) first_ = MetricsLine();
  last_shown_s_ = live_columns() > 0 ? -1 : now_s();  // a terminal shows the first step
}

void Progress::on_metrics(const MetricsLine& line) {
  if (options_.quiet) return;
  if (line.split == "train")
    training(line);
  else
    evaluation(line);
}

double Progress::seconds_left(const MetricsLine& line) const {
  if (!more_ || line.step <= first_->step) return -1;
  return (line.elapsed_s - first_->elapsed_s) * static_cast<double>(options_.steps - line.step) /
         static_cast<double>(line.step - first_->step);
}

void Progress::clear_line() {
  if (line_shown_) erase_line();
  line_shown_ = false;
}

void Progress::training(const MetricsLine& line) {
  if (!first_) first_ = line;
  last_ = line;
  is_drawn_ = false;
  const double loss = line.values.at("loss");
  if (std::isfinite(loss)) losses_.push_back(loss);
  if (losses_.size() == 2 * most_losses)
    losses_.erase(losses_.begin(), losses_.begin() + most_losses);
  if (now_s() - last_shown_s_ >= (live_columns() > 0 ? 0.1 : 5.0)) draw();
}

void Progress::draw() {
  const std::int64_t columns = live_columns();
  if (!last_ || (is_drawn_ && columns == 0)) return;
  clear_line();
  const auto [unit, units_per_s] = speed_of(*last_);
  const std::string line =
      status_line({.step = last_->step,
                   .steps = options_.steps,
                   .loss = last_->values.at("loss"),
                   .losses = columns > 0 && shows_blocks() ? std::span<const double>(losses_)
                                                           : std::span<const double>(),
                   .units_per_s = units_per_s,
                   .unit = unit,
                   .seconds_left = seconds_left(*last_),
                   .memory_bytes = columns > 0 && options_.own_memory ? resident_bytes() : 0},
                  columns > 0 ? columns - 1 : plain_columns);
  say("{}{}", line, columns > 0 ? "" : "\n");
  line_shown_ = columns > 0;
  is_drawn_ = true;
  last_shown_s_ = now_s();
  std::fflush(stdout);
}

void Progress::evaluation(const MetricsLine& line) {
  clear_line();
  say("step {}/{}  {}: {}\n", line.step, options_.steps,
      line.split == "test" ? "test of the best" : "validation", show(line.values, line.signatures));
  std::fflush(stdout);
}

void Progress::on_message(const std::string& text) {
  clear_line();
  say("{}", text);
  std::fflush(stdout);
}

void Progress::on_end() {
  clear_line();
  std::fflush(stdout);
}

}  // namespace tapestry
