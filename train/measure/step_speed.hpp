#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

// Measures the time of a repeated step, and its FLOP/s relative to the peak of the machine.
namespace tapestry {

struct TimingOptions {
  int warm_up = 3;  // untimed steps before the timed ones, including the first step
  // limits of the number of timed steps
  std::int64_t least_steps = 10, most_steps = std::numeric_limits<std::int64_t>::max();
  double least_s = 1;  // minimum total time of the timed steps, in seconds
  // if the first step takes longer, no other step is run
  double longest_first_s = std::numeric_limits<double>::infinity();
};

// The times of a repeated step, in seconds. If it ran once, all are the time of the first step.
struct StepTimes {
  double first_s = 0;  // time of the first step, which creates buffers
  double median_s = 0, mean_s = 0, fastest_s = 0, slowest_s = 0;  // times of the timed steps
  std::int64_t steps = 0;                                         // number of timed steps
};
StepTimes time_steps(const std::function<void()>& step, const TimingOptions& options = {});

// The throughput of a step, and the peak of the machine measured before and after it.
struct StepSpeed {
  StepTimes times{};
  double units = 0;       // number of tokens, images and so on per step
  std::string unit{};     // "tokens"
  double flops = 0;       // FLOP per step of matrix products and attention; 0: unknown
  double peak_bytes = 0;  // maximum resident memory: exact for the first step of a process
  // seconds from the start of the process to the end of its first step; 0: not its first
  double first_step_s = 0;
  // float32 GFLOP/s: the peak before and after the timed steps, and the best matrix product.
  double peak_before = 0, peak_after = 0, best_product = 0;

  double gflops() const { return flops / times.median_s / 1e9; }
  double peak() const { return std::max(peak_before, peak_after); }
};

// Times a step and measures the peaks. The caller sets `units`, `unit` and `flops`.
StepSpeed step_speed(const std::function<void()>& step, const TimingOptions& options = {});

// Return the speed as lines for a terminal, and as one line of JSON with its line end.
std::string show(const std::string& name, const StepSpeed& speed);
std::string json(const std::string& name, const StepSpeed& speed);

}  // namespace tapestry
