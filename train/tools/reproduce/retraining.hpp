#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/run/session.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

// A run that is trained again in memory. Of its folder only is read, so that another process may
// train into it meanwhile.
class Retraining {
 public:
  // InputError where the folder holds no run, or where `overrides` change what decides its bits.
  Retraining(const Run& run, const std::vector<std::string>& overrides);

  const Run& run() const { return run_; }
  const Config& config() const { return config_; }
  const std::vector<Session>& sessions() const { return sessions_; }  // as they were at first
  Task& task() { return *task_; }                                     // of what was begun

  // best.safetensors and checkpoint.safetensors as they were at first; null where there is none.
  const Checkpoint* best() const { return best_ ? &*best_ : nullptr; }
  const Checkpoint* last() const { return last_ ? &*last_ : nullptr; }

  // InputError of a checkpoint that was trained under another config than this one.
  void expect_trained_alike(const Checkpoint& checkpoint) const;

  // Once: a trainer that goes on from one of these, or, of null, from the start. InputError where
  // the data are not those of the run.
  Trainer& begin(const Checkpoint* from);

  // The trainer's next step, at the learning rate that the session had which trained it, as far as
  // sessions.jsonl knows it.
  MetricSums step();
  ComputedStep compute();  // and leaves it at that

 private:
  void follow_session();

  Run run_;
  std::vector<std::string> overrides_;
  std::optional<Checkpoint> best_, last_;
  std::vector<Session> sessions_;
  Config config_;
  // From a step on, by sessions; empty where it is not known what they had.
  std::vector<std::pair<std::int64_t, Schedule>> schedules_;
  std::unique_ptr<Task> task_;
  std::atomic<bool> never_ = false;
  Ranks alone_;
  std::optional<Trainer> trainer_;
};

}  // namespace tapestry
