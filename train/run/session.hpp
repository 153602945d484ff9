#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/run/run.hpp"

// sessions.jsonl of a run's folder: which processes trained it, when, how and on what. No training
// depends on it: bits and checkpoints are the same whatever it says.
namespace tapestry {

// One process, from where it began to train until it ended.
struct Session {
  std::string began{};  // "2026-11-23T03:45:10Z"
  std::int64_t from_step = 0;
  std::string version{}, engines{}, processor{};
  std::int64_t threads = 1, ranks = 1;
  std::vector<std::string> command{};  // what was typed
  std::int64_t examples = 0;           // of its training data; 0: an earlier version
  std::string data{};                  // their checksum; empty where they were drawn
  struct End {
    std::string at{}, how{};  // "done", "stopped", or "failed: …"
    std::int64_t step = 0;
    std::int64_t tensor_bytes = 0;  // what arrays held at most; 0: an earlier version
  };
  std::optional<End> end{};  // none where it was killed, or trains still
};

std::string processor();  // of this machine: "AMD EPYC 7B13"

// Take down this process, and its end. std::runtime_error where that cannot be written.
void note_begin(const Run& run, const TrainingState& from, std::int64_t ranks);
void note_end(const Run& run, std::int64_t step, const std::string& how);

// In their order, the latest 1000. Lines that are damaged are left out.
std::vector<Session> read_sessions(const Run& run);

}  // namespace tapestry
