#pragma once

#include <chrono>

#include "train/run/recorder.hpp"

namespace tapestry {

struct ProgressOptions {
  std::int64_t steps = 0;  // of the whole training
  std::string unit = "examples";
  bool quiet = false;  // shows notes only
};

// Shows a training on the terminal: one line that is written over, or, where the output is not a
// terminal, a plain line now and then.
class Progress final : public Recorder {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress() override { finish(); }  // what an error says has a line of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void resume_at(std::int64_t step, bool evaluated) override;
  void write(const MetricsLine& line) override;
  void note(const std::string& text) override;
  void finish() override;  // leaves the cursor on a new line

 private:
  using Clock = std::chrono::steady_clock;
  void training(const MetricsLine& line);
  void evaluation(const MetricsLine& line);
  std::string time_left(std::int64_t step) const;
  void clear_line();

  ProgressOptions options_;
  bool terminal_;
  bool line_shown_ = false;
  std::int64_t first_step_ = 0;
  Clock::time_point start_, last_shown_;
};

}  // namespace tapestry
