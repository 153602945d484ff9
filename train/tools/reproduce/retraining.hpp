#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/run/session.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

// A run that is trained again in memory. It only reads the run's folder, into which another process
// may train at the same time.
class Retraining {
 public:
  // Throws InputError if the folder is no run, or `overrides` change what its bits depend on.
  Retraining(const Run& run, const std::vector<std::string>& overrides);

  const Run& run() const { return run_; }
  const Config& config() const { return config_; }
  const std::vector<Session>& sessions() const {
    return sessions_;
  }                                // sessions recorded when it was opened
  Task& task() { return *task_; }  // valid after begin()

  // Return best.safetensors and checkpoint.safetensors as they were at first, or null.
  const Checkpoint* best() const { return best_ ? &*best_ : nullptr; }
  const Checkpoint* last() const { return last_ ? &*last_ : nullptr; }

  // Throws InputError if the checkpoint was trained with another config.
  void expect_trained_alike(const Checkpoint& checkpoint) const;

  // Returns a trainer that starts from a checkpoint, or from the first step if it is null. Throws
  // InputError if the data are not those of the run. Must be called once.
  Trainer& begin(const Checkpoint* from);

  // Does the trainer's next step, at the learning rate of the session that trained it, as far as
  // sessions.jsonl records it.
  MetricSums step();
  ComputedStep compute();  // without moving the parameters

 private:
  void follow_session();

  Run run_;
  std::vector<std::string> overrides_;
  std::optional<Checkpoint> best_, last_;
  std::vector<Session> sessions_;
  Config config_;
  // Schedules by the step from which a session trained; empty if their settings are unknown.
  std::vector<std::pair<std::int64_t, Schedule>> schedules_;
  std::unique_ptr<Task> task_;
  std::atomic<bool> never_ = false;
  Ranks alone_;
  std::optional<Trainer> trainer_;
};

}  // namespace tapestry
