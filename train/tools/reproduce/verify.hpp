#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/run/session.hpp"

namespace tapestry {

struct VerifyOptions {
  std::string from = "start";  // or "best", "checkpoint": the run's; or the path of one
  std::int64_t steps = -1;     // -1: to the first evaluation that was recorded
  bool all = false;            // instead: all lines of metrics, and a checkpoint after the last
  std::vector<std::string> overrides{};
  std::function<void(std::int64_t step, std::int64_t last)> watch{};  // looks at each step
};

// Of one of a run's checkpoints, or of an evaluation in its checksums.jsonl, the tensors that are
// others than those that were computed.
struct DifferingTensors {
  std::string path{};
  std::int64_t step = 0;
  std::size_t all = 0;
  std::vector<std::string> names{};
};

// What became of a comparison, bit for bit, of a run with the same steps trained again.
struct VerifyResult {
  std::string from{};                                            // "the start", or a checkpoint
  std::int64_t first_step = 0, last_step = 0, steps_of_run = 0;  // [first, last] were compared
  std::int64_t training_lines = 0, evaluations = 0, tests = 0, tensors = 0;
  std::int64_t recorded_steps = 0;         // those of which a line or tensors were compared
  std::int64_t last_same = -1;             // the last of these without a difference; -1: none
  std::vector<std::string> checkpoints{};  // of which the tensors are

  std::int64_t differs_at = -1;            // the first step that does; -1: none
  std::vector<std::string> differences{};  // at it: "loss 2.5 was recorded, 2.25 is computed"
  std::vector<DifferingTensors> tensors_that_differ{};
  std::vector<std::string> not_compared{};

  std::vector<Session> recorded_by{};  // those of these steps, as far as it was taken down
  Session computed_by{};
  std::vector<std::string> other_makers{};  // why other bits are to be expected

  bool is_same() const { return differs_at < 0; }
};

// Return this process as a session, and why other bits are to be expected from it than from the
// sessions that recorded.
Session this_process();
std::vector<std::string> other_makers(const std::vector<Session>& sessions,
                                      const VerifyResult& result, const Config& config);

// Trains again what a run has recorded, and compares figures, checksums and, where their step is
// reached, the tensors and the state of its checkpoints. After a difference it goes on to the next
// evaluation or checkpoint, to name the parameters. InputError where there is nothing to compare
// with, where a line of metrics.jsonl is damaged or out of order, or the data are others.
VerifyResult verify(const Run& run, const VerifyOptions& options);

}  // namespace tapestry
