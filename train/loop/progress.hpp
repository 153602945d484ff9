#pragma once

#include <chrono>
#include <string>

#include "train/run/metrics.hpp"

namespace tapestry {

// What the terminal shows of a training: one line that is written over, or, where the output is
// not a terminal, a plain line now and then.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t steps, bool quiet);

  void training(const MetricsLine& line, const std::string& unit);
  void evaluation(const MetricsLine& line);
  void profile(const std::string& report);
  void finish();  // leaves the cursor on a new line

 private:
  using Clock = std::chrono::steady_clock;
  std::string time_left(std::int64_t step) const;
  void clear_line();

  std::int64_t first_step_, steps_;
  bool quiet_, terminal_;
  bool line_shown_ = false;
  Clock::time_point start_, last_shown_;
};

std::string show(const Metrics& values);  // "loss 1.8832  bits_per_char 2.717"
// "loss 1.8832 ± 0.0041  bits_per_char 2.7170 ± 0.0059"
std::string show(const Metrics& means, const Metrics& deviations);

}  // namespace tapestry
