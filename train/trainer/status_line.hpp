#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tapestry {

// What is shown of a training while it runs.
struct Status {
  std::int64_t step = 0, steps = 0;
  double loss = 0;
  std::span<const double> losses{};  // the latest; empty: no curve is drawn
  double units_per_s = 0;
  std::string unit{};             // "tokens"
  double seconds_left = -1;       // below 0: not known
  std::int64_t memory_bytes = 0;  // resident; 0: not known
};

// As one line of at most so many columns: what does not fit is left out, the loss and its step
// last. "step 120/400  loss 2.5495  █▆▄▃▂▁  21355 tokens/s  0:12 left  312 MB"
std::string status_line(const Status& status, std::int64_t columns);

// Values as a curve of at most so many columns, each the mean of as many values: "█▅▂▁".
std::string sparkline(std::span<const double> values, std::int64_t columns);

std::int64_t resident_bytes();  // of this process; 0: not known

}  // namespace tapestry
