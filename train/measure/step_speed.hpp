#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

// How fast a repeated step is, and which fraction of the machine's peak it reaches.
namespace tapestry {

struct TimingOptions {
  int warm_up = 3;  // steps before the timed ones, the first included
  std::int64_t least_steps = 10, most_steps = std::numeric_limits<std::int64_t>::max();  // timed
  double least_s = 1;  // seconds that the timed steps take together, at least
  double longest_first_s = std::numeric_limits<double>::infinity();  // a longer first step is alone
};

// Seconds of a repeated step. If it was done once, all are those of the first step.
struct StepTimes {
  double first_s = 0;  // time of the first step, which creates buffers
  double median_s = 0, mean_s = 0, fastest_s = 0, slowest_s = 0;  // times of the timed steps
  std::int64_t steps = 0;                                         // timed
};
StepTimes time_steps(const std::function<void()>& step, const TimingOptions& options = {});

// The speed of a step, and what the machine reached around it.
struct StepSpeed {
  StepTimes times{};
  double units = 0;         // tokens, images and so on, per step
  std::string unit{};       // "tokens"
  double flops = 0;         // of matrix products and attention, per step; 0: not known
  double peak_bytes = 0;    // maximum resident memory: exact for the first step of a process
  double first_step_s = 0;  // from the start of the process to the end of its first step; else 0
  // float32 GFLOP/s: the peak before and after the timed steps, and the best matrix product.
  double peak_before = 0, peak_after = 0, best_product = 0;

  double gflops() const { return flops / times.median_s / 1e9; }
  double peak() const { return std::max(peak_before, peak_after); }
};

// Times a step and measures the peaks. The caller adds units and flops.
StepSpeed step_speed(const std::function<void()>& step, const TimingOptions& options = {});

// Return the speed as lines for a terminal, and as one line of JSON, with the end of the line.
std::string show(const std::string& name, const StepSpeed& speed);
std::string json(const std::string& name, const StepSpeed& speed);

}  // namespace tapestry
