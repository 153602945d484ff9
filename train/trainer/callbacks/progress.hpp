#pragma once

#include <optional>
#include <span>
#include <vector>

#include "train/trainer/callback.hpp"

namespace tapestry {

// The progress of a training.
struct Status {
  std::int64_t step = 0, steps = 0;
  double loss = 0;
  std::span<const double> losses{};  // the last ones; empty: no curve
  double units_per_s = 0;
  std::string unit{};             // "tokens"
  double seconds_left = -1;       // negative: unknown
  std::int64_t memory_bytes = 0;  // resident memory; 0: unknown
};

// Returns one line of at most `columns` columns. Parts that do not fit are omitted, except step and
// loss, which are truncated: "step 120/400  loss 2.5495  █▆▄▃▂▁  21355 tokens/s  0:12 left  312 MB"
std::string status_line(const Status& status, std::int64_t columns);

// Returns the values as a curve of at most `columns` columns, of which each is the mean of about
// equally many values: "█▅▂▁". Empty if there are no values, or if a mean is not finite.
std::string sparkline(std::span<const double> values, std::int64_t columns);

struct ProgressOptions {
  std::int64_t steps = 0;  // number of steps of the whole training
  bool quiet = false;      // show only messages
  bool own_memory = true;  // show the memory of this process, which trains
};

// A callback that shows a training on the terminal: one line that is overwritten or, if the output
// is not a terminal that can erase, a line every 5 s.
class Progress final : public Callback {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress() override { on_end(); }  // so that an error message does not follow the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void on_begin(std::int64_t step, bool evaluated) override;
  void on_metrics(const MetricsLine& line) override;
  void on_message(const std::string& text) override;
  void draw();  // shows the last line of training, if it has not been shown
  void expect_steps(std::int64_t steps) { options_.steps = steps; }
  // Sets whether more steps follow, so that the line shows the time left; initially true.
  void expect_more(bool more) { more_ = more; }
  void on_end() override;  // erases the line that is overwritten, if it is shown

 private:
  void training(const MetricsLine& line);
  void evaluation(const MetricsLine& line);
  double seconds_left(const MetricsLine& line) const;
  void clear_line();

  ProgressOptions options_;
  bool line_shown_ = false, is_drawn_ = false, more_ = true;
  // The first and the last training line since on_begin(), or of this process.
  std::optional<MetricsLine> first_, last_;
  std::vector<double> losses_;  // the last ones
  double last_shown_s_ = 0;
};

}  // namespace tapestry
