#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/run/session.hpp"

namespace tapestry {

struct VerifyOptions {
  std::string from = "start";  // "start", "best", "checkpoint", or the path of a checkpoint
  // Number of steps; -1: up to the first recorded evaluation, or all recorded steps without one.
  std::int64_t steps = -1;
  bool all = false;  // compare all lines of metrics, all checkpoints and the test metrics
  std::vector<std::string> overrides{};
  std::function<void(std::int64_t step, std::int64_t last)> watch{};  // called after each step
};

// The tensors of a checkpoint, or of an evaluation in checksums.jsonl, that differ from the
// computed ones.
struct DifferingTensors {
  std::string path{};
  std::int64_t step = 0;
  std::size_t all = 0;  // number of tensors
  std::vector<std::string> names{};
};

// The result of the bitwise comparison of a run with the same steps trained again.
struct VerifyResult {
  std::string from{};                                            // "the start", or a checkpoint
  std::int64_t first_step = 0, last_step = 0, steps_of_run = 0;  // [first, last] were compared
  // Numbers of compared lines of metrics, and of compared tensors of checkpoints.
  std::int64_t training_lines = 0, evaluations = 0, tests = 0, tensors = 0;
  std::int64_t recorded_steps = 0;  // number of steps of which lines or tensors were compared
  std::int64_t last_same = -1;      // last compared step without a difference; -1: none
  std::vector<std::string> checkpoints{};  // checkpoints whose tensors were compared

  std::int64_t differs_at = -1;  // first step that differs; -1: none
  std::vector<std::string>
      differences{};  // in this step: "loss 2.5 was recorded, 2.25 is computed"
  std::vector<DifferingTensors> tensors_that_differ{};
  std::vector<std::string> not_compared{};

  std::vector<Session> recorded_by{};  // sessions of these steps, as far as they are recorded
  Session computed_by{};
  std::vector<std::string> other_makers{};  // reasons to expect other bits

  bool is_same() const { return differs_at < 0; }
};

// Return this process as a session, and the reasons to expect that this process computes other bits
// than the sessions that recorded the run.
Session this_process();
std::vector<std::string> other_makers(const std::vector<Session>& sessions,
                                      const VerifyResult& result, const Config& config);

// Trains the steps of a run again, and compares metrics, checksums, and the tensors and state of
// its checkpoints. After a difference, trains on to the next evaluation or checkpoint, to name the
// parameters that differ. Throws InputError if nothing is recorded, if a line of metrics.jsonl is
// damaged or out of order, if the data differ, if the checkpoint `from` does not exist or was
// trained with another config, and as the constructor of Retraining does.
VerifyResult verify(const Run& run, const VerifyOptions& options);

}  // namespace tapestry
