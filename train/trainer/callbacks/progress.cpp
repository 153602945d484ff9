#include "train/trainer/callbacks/progress.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autograd/clock.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/evaluation.hpp"

namespace tapestry {

namespace {

constexpr std::array<const char*, 8> levels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::int64_t curve_columns = 16;
constexpr double most_seconds = 1e9;

std::string as_time(double left) {
  const auto seconds = static_cast<std::int64_t>(left + 0.5);
  return seconds < 3600
             ? fmt::format("{}:{:02}", seconds / 60, seconds % 60)
             : fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

constexpr std::int64_t plain_columns = 200;  // width of a line if the output is not a terminal
// Number of last losses that the curve keeps when there are twice as many: drawing must stay fast.
constexpr std::size_t most_losses = 1024;

// Returns {"tokens", 21355.2} from "tokens_per_s"; {"steps", 0} if there is no such metric.
std::pair<std::string, double> speed_of(const MetricsLine& line) {
  for (const auto& [name, value] : line.values)
    if (const std::string unit = unit_of_throughput(name); !unit.empty()) return {unit, value};
  return {"steps", 0};
}

}  // namespace

std::string sparkline(std::span<const double> values, std::int64_t columns) {
  const auto count = std::ssize(values), shown = std::min<std::int64_t>(count, columns);
  std::vector<double> means;
  for (std::int64_t i = 0; i < shown; ++i) {
    const auto part =
        values.subspan(i * count / shown, (i + 1) * count / shown - i * count / shown);
    means.push_back(std::reduce(part.begin(), part.end()) / static_cast<double>(part.size()));
  }
  const auto is_finite = [](double mean) { return std::isfinite(mean); };
  if (means.empty() || !std::ranges::all_of(means, is_finite)) return "";
  const auto [low, high] = std::ranges::minmax(means);
  if (!std::isfinite(high - low)) return "";
  std::string line;
  for (const double mean : means) {
    const double height = high > low ? (mean - low) / (high - low) : 0;
    line += levels[std::min<std::size_t>(static_cast<std::size_t>(height * 8), 7)];
  }
  return line;
}

std::string status_line(const Status& status, std::int64_t columns) {
  struct Part {
    std::string text;
    std::int64_t columns;
    int rank;  // the highest is omitted first
  };
  const auto plain = [](std::string text, int rank) {
    const std::int64_t size = std::ssize(text);
    return Part{std::move(text), size, rank};
  };
  std::vector<Part> parts = {plain(fmt::format("step {}/{}", status.step, status.steps), 0),
                             plain(fmt::format("loss {:.4f}", status.loss), 0)};
  if (const std::int64_t curve = std::min(curve_columns, std::ssize(status.losses)); curve > 1)
    parts.push_back({sparkline(status.losses, curve), curve, 3});
  parts.push_back(plain(fmt::format("{:.0f} {}/s", status.units_per_s, status.unit), 2));
  if (status.seconds_left >= 0 && status.seconds_left < most_seconds)
    parts.push_back(plain(as_time(status.seconds_left) + " left", 1));
  if (status.memory_bytes > 0)
    parts.push_back(plain(fmt::format("{} MB", status.memory_bytes >> 20), 4));

  for (int rank = 4; rank > 0; --rank) {
    std::int64_t width = -2;
    for (const Part& part : parts) width += part.columns + 2;
    if (width <= columns) break;
    std::erase_if(parts, [&](const Part& part) { return part.rank == rank; });
  }
  std::string line;
  for (const Part& part : parts)
    if (!part.text.empty()) line += (line.empty() ? "" : "  ") + part.text;
  const bool too_long = parts.size() == 2 && std::ssize(line) > columns;
  return too_long ? line.substr(0, std::max<std::int64_t>(columns, 0)) : line;
}

Progress::Progress(const ProgressOptions& options) : options_(options) {}

void Progress::on_begin(std::int64_t step, bool) {
  if (step == 0) first_ = MetricsLine();
  last_shown_s_ = live_columns() > 0 ? -1 : now_s();  // shows the first step on a terminal
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
      line.split == "test" ? "test (best model)" : "validation",
      show(line.values, line.signatures));
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
