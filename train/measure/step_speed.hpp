#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

// Measures the time of a repeated step, and its FLOP/s relative to the peak of the machine.
namespace tapestry {

class JsonValue;

struct TimingOptions {
  int warm_up = 3;  // steps before those of the median; the first always runs, and gives first_s
  // Limits of the number of timed steps; with most_steps = 0 only the first step is run.
  std::int64_t least_steps = 10, most_steps = std::numeric_limits<std::int64_t>::max();
  double least_s = 1;  // minimum total time of the timed steps, in seconds
  // If the first step takes more seconds, no other step is run.
  double longest_first_s = std::numeric_limits<double>::infinity();
};

// The times of a repeated step, in seconds. If it ran once, all are the time of the first step.
struct StepTimes {
  double first_s = 0;  // time of the first step, which creates buffers
  double median_s = 0, mean_s = 0, fastest_s = 0, slowest_s = 0;  // times of the timed steps
  std::int64_t steps = 0;                                         // number of timed steps
};
// Times steps. Throws std::invalid_argument if the options allow that no step is timed
// (least_steps = 0 and least_s = 0).
StepTimes time_steps(const std::function<void()>& step, const TimingOptions& options = {});

// The throughput of a step, and the peak of the machine measured before and after it.
struct StepSpeed {
  StepTimes times{};
  double units = 0;    // number of tokens, images and so on per step
  std::string unit{};  // "tokens"
  double flops = 0;    // FLOP per step of matrix products and attention; 0: unknown
  // Maximum resident memory in bytes, with what the process used before; 0: unknown.
  double peak_bytes = 0;
  // Seconds from the start of the process to the end of the first step that step_speed() ran; 0 in
  // its later calls.
  double first_step_s = 0;
  // GFLOP/s: the float32 peak before and after the timed steps, and the best matrix product.
  double peak_before = 0, peak_after = 0, best_product = 0;

  double gflops() const { return flops / times.median_s / 1e9; }
  double peak() const { return std::max(peak_before, peak_after); }
};

// Times a step, after one step more than options.warm_up, and measures the peaks. The caller sets
// `units`, `unit` and `flops`. Throws as time_steps() does.
StepSpeed step_speed(const std::function<void()>& step, const TimingOptions& options = {});

// Return the speed as lines for a terminal, and as a JSON object.
std::string show(const std::string& name, const StepSpeed& speed);
JsonValue json_of(const std::string& name, const StepSpeed& speed);

}  // namespace tapestry
