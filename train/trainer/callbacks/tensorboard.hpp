#pragma once

#include <optional>

#include "train/run/event_file.hpp"
#include "train/trainer/callbacks/sample_recorder.hpp"

namespace tapestry {

// Writes a training for TensorBoard, into the run's folder: every figure of metrics.jsonl, as
// "loss/train" and so on, the config, and now and then what the model shows (samples, attention)
// and the distribution of its weights and gradients, as its InspectionBudget allows.
class TensorBoardRecorder final : public Recorder {
 public:
  // lock, task and config outlive it.
  TensorBoardRecorder(RunLock& lock, Task& task, const Config& config)
      : lock_(lock), task_(task), config_(config) {}

  void resume_at(std::int64_t step, bool evaluated) override;
  void write(const MetricsLine& line) override;
  void look(std::int64_t step, const Gradients* gradients) override;
  void sync() override { file_->sync(); }

 private:
  void show_samples(std::int64_t step);
  void show_attention(std::int64_t step);
  void show_weights(std::int64_t step, const Gradients* gradients);

  RunLock& lock_;
  Task& task_;
  const Config& config_;
  std::optional<EventFile> file_;
  InspectionBudget budget_;
};

}  // namespace tapestry
