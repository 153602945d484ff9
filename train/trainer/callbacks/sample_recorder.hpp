#pragma once

#include <chrono>

#include "train/run/recorder.hpp"
#include "train/task.hpp"

namespace tapestry {

// Looks at a model while it trains take a hundredth of the training's time at most, so that how
// many there are depends on the machine; the training does not depend on them. The first is free.
class InspectionBudget {
 public:
  bool allows_one() const;
  // Makes a look, whose time it counts.
  template <class Look>
  void spend_on(const Look& look) {
    const Clock::time_point begin = Clock::now();
    look();
    spent_ += Clock::now() - begin;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Clock::duration spent_{};
};

// What a view makes with its own options, of its text at most so many bytes.
Sample sample_now(const Config& config, Task& task, std::size_t most_bytes);

// samples.jsonl, of `train.samples`: texts that the model makes, {"step", "name", "text"} a line.
class SampleRecorder final : public Recorder {
 public:
  // lock, task and config outlive it.
  SampleRecorder(RunLock& lock, Task& task, const Config& config)
      : lock_(lock), task_(task), config_(config) {}

  void resume_at(std::int64_t step, bool evaluated) override;
  void write(const MetricsLine&) override {}
  void look(std::int64_t step, const Gradients* gradients) override;
  void sync() override { file_->sync(); }

 private:
  RunLock& lock_;
  Task& task_;
  const Config& config_;
  std::optional<File> file_;
  InspectionBudget budget_;
};

// What the file holds, at most the latest 200; lines that are damaged are left out.
struct KeptSample {
  std::int64_t step = 0;
  std::string name{}, text{};
};
std::vector<KeptSample> read_samples(const Run& run);

}  // namespace tapestry
