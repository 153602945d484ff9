#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/run/session.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

// A training that repeats a run in memory. It only reads the run's folder, into which another
// process may train at the same time.
class Retraining {
 public:
  // Throws InputError if the folder is not a run, if `overrides` change a setting on which its bits
  // depend, or if a checkpoint was trained with another config.
  Retraining(const Run& run, const std::vector<std::string>& overrides);

  const Run& run() const { return run_; }
  const Config& config() const { return config_; }
  const std::vector<Session>& sessions() const {
    return sessions_;
  }                                // the sessions recorded when this object was constructed
  Task& task() { return *task_; }  // valid after begin()
  // Returns the config of each session, as far as it affects the result, with the step at which the
  // session began; nothing if the settings of sessions are unknown.
  std::vector<std::pair<std::int64_t, Config>> configs_of_sessions(
      const std::vector<std::string>& overrides) const;

  // Return best.safetensors and checkpoint.safetensors as read by the constructor; null if the file
  // did not exist.
  const Checkpoint* best() const { return best_ ? &*best_ : nullptr; }
  const Checkpoint* last() const { return last_ ? &*last_ : nullptr; }

  // Throws InputError if the checkpoint was trained with another config.
  void expect_trained_alike(const Checkpoint& checkpoint) const;

  // Returns a trainer that starts from a checkpoint, or from the first step if `from` is null.
  // Throws InputError if the data are not those of the run, or if the weights from which the run
  // started do not exist. Must be called once.
  Trainer& begin(const Checkpoint* from);

  // Takes the trainer's next step, with the learning rate of the session that trained this step, if
  // sessions.jsonl records its settings. Throws as Trainer::step() does.
  MetricSums step();
  ComputedStep compute();  // computes the next step without moving parameters

 private:
  void follow_session();

  Run run_;
  std::vector<std::string> overrides_;
  std::optional<Checkpoint> best_, last_;
  std::vector<Session> sessions_;
  Config config_;
  // Schedules, with the step at which their session began; empty if the settings of sessions are
  // unknown.
  std::vector<std::pair<std::int64_t, Schedule>> schedules_;
  std::unique_ptr<Task> task_;
  std::atomic<bool> never_ = false;
  Ranks alone_;
  std::optional<Trainer> trainer_;
};

}  // namespace tapestry
