#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/run/run_lock.hpp"

// sessions.jsonl of a run's folder: which processes trained it, when, how and on what. No training
// depends on it: bits and checkpoints are the same whatever it says.
namespace tapestry {

using ConfigSettings = std::map<std::string, std::string>;  // values as TOML, by the names of keys

// Returns the value; empty if it is unused.
std::string value_in(const ConfigSettings& settings, const std::string& name);
// Returns the names of which not all have the same value, in order.
std::vector<std::string> names_that_differ(const std::vector<const ConfigSettings*>& all);

// A setting that a session has otherwise than the one before it, as TOML; empty: it is not used.
struct ChangedSetting {
  std::string key{}, before{}, after{};
};

// Returns the settings in which two configs differ and on which depends what a training comes to,
// but for the places of data and first weights.
std::vector<ChangedSetting> changes(const Config& before, const Config& after);

// "train.steps = 900 (before: 600), optim.decay_steps = 600 (before: 0)"
std::string to_text(const std::vector<ChangedSetting>& changed);

// One process, from where it began to train until it ended.
struct Session {
  std::string began{};  // "2026-11-23T03:45:10Z"
  std::int64_t from_step = 0;
  std::string version{}, backends{}, processor{};
  std::int64_t threads = 1, ranks = 1;
  std::vector<std::string> command{};  // what was typed
  std::int64_t examples = 0;           // of its training data
  std::string data{};                  // their checksum; empty where they were drawn
  // Since the session that it resumes; none where it begins the run, or as commit 1259dc1, which
  // recorded no changes, wrote it.
  std::optional<std::vector<ChangedSetting>> changed{};
  struct End {
    std::string at{}, how{};  // "done", "stopped", or "failed: …"
    std::int64_t step = 0;
    std::int64_t tensor_bytes = 0;  // what arrays held at most
  };
  std::optional<End> end{};  // none where it was killed, or trains still
};

std::string processor();  // of this machine: "AMD EPYC 7B13"

// Take down this process, and its end. std::runtime_error where that cannot be written.
void record_begin(RunLock& lock, const TrainingState& from, std::int64_t ranks,
                  const std::optional<std::vector<ChangedSetting>>& changed = {});
void record_end(RunLock& lock, std::int64_t step, const std::string& how);

// Says how a training that no process is at has ended: "finished, 40 steps", "stopped at step 20 of
// 40", "failed: … at step 20 of 40"; where its last process took down no end, that it was killed.
// `step` is the last that was recorded, `steps` those that were asked for (0: not known).
struct Reached {
  std::int64_t step = 0, steps = 0;
  bool is_tested = false;  // its best model was, after the last step
};
std::string outcome(const std::vector<Session>& sessions, const Reached& reached);

// Returns the latest 1000 sessions, in their order. Damaged lines are left out.
std::vector<Session> read_sessions(const Run& run);

// Returns those that trained some of the steps [first, last].
std::vector<Session> sessions_within(const std::vector<Session>& sessions, std::int64_t first,
                                     std::int64_t last);

// The settings of one of these sessions that are not those of the last, by key; a value as in
// ChangedSetting.
ConfigSettings settings_before(const std::vector<Session>& sessions, std::size_t session);
// Whether that is known of all: commit 1259dc1 did not record it, so that what was typed has to be
// the same.
bool knows_settings(const std::vector<Session>& sessions);

}  // namespace tapestry
