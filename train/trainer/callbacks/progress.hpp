#pragma once

#include <optional>
#include <vector>

#include "train/trainer/callback.hpp"

namespace tapestry {

struct ProgressOptions {
  std::int64_t steps = 0;  // of the whole training
  bool quiet = false;      // shows notes only
  bool own_memory = true;  // the training is this process's: its memory is shown
};

// Shows a training on the terminal: one line that is written over, or, where the output is no
// terminal that can erase, a plain line now and then.
class Progress final : public Callback {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress() override { on_end(); }  // what an error says has a line of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void on_begin(std::int64_t step, bool evaluated) override;
  void on_metrics(const MetricsLine& line) override;
  void on_message(const std::string& text) override;
  void draw();  // the last line of training, if it was not, however short ago another was shown
  void expect_steps(std::int64_t steps) { options_.steps = steps; }
  // Whether more steps are to come, so that the line says when they will be done; true at first.
  void expect_more(bool more) { more_ = more; }
  void on_end() override;  // leaves the cursor on a new line

 private:
  void training(const MetricsLine& line);
  void evaluation(const MetricsLine& line);
  double seconds_left(const MetricsLine& line) const;
  void clear_line();

  ProgressOptions options_;
  bool line_shown_ = false, is_drawn_ = false, more_ = true;
  std::optional<MetricsLine> first_, last_;  // of training, of this process or since the begin
  std::vector<double> losses_;               // the latest
  double last_shown_s_ = 0;
};

}  // namespace tapestry
