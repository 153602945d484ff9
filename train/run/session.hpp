#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/run/run_lock.hpp"

// sessions.jsonl of a run: which processes trained it, when, with which settings and on which
// machine. No training depends on it.
namespace tapestry {

using ConfigSettings = std::map<std::string, std::string>;  // values as TOML, by the names of keys

// Returns the value; empty if it is unused.
std::string value_in(const ConfigSettings& settings, const std::string& name);
// Returns the names of which not all have the same value, in order.
std::vector<std::string> names_that_differ(const std::vector<const ConfigSettings*>& all);

// A setting that a session changed, as TOML; empty if it is not used.
struct ChangedSetting {
  std::string key{}, before{}, after{};
};

// Returns the settings that differ and affect the result of a training, without the paths of the
// data and of the initial weights.
std::vector<ChangedSetting> changes(const Config& before, const Config& after);

// Returns "train.steps = 900 (before: 600), optim.decay_steps = 600 (before: 0)".
std::string to_text(const std::vector<ChangedSetting>& changed);

// A process that trained the run, from its first step to its last.
struct Session {
  std::string began{};  // "2026-11-23T03:45:10Z"
  std::int64_t from_step = 0;
  std::string version{}, backends{}, processor{};
  std::int64_t threads = 1, ranks = 1;
  std::vector<std::string> command{};  // command line as typed
  std::int64_t examples = 0;           // number of training examples
  std::string data{};                  // their checksum; empty if they are synthetic
  // Since the session that it resumed. None if it began the run, or was recorded by commit 1259dc1,
  // which recorded no changes.
  std::optional<std::vector<ChangedSetting>> changed{};
  struct End {
    std::string at{}, how{};  // "done", "stopped", or "failed: …"
    std::int64_t step = 0;
    std::int64_t tensor_bytes = 0;  // the largest number of bytes in arrays
  };
  std::optional<End> end{};  // none if it was killed, or still trains
};

std::string processor();  // returns this machine's processor: "AMD EPYC 7B13"

// Record the beginning and the end of this process. Throw std::runtime_error if that fails.
void record_begin(RunLock& lock, const TrainingState& from, std::int64_t ranks,
                  const std::optional<std::vector<ChangedSetting>>& changed = {});
void record_end(RunLock& lock, std::int64_t step, const std::string& how);

// Returns how a run ended that no process trains: "finished, 40 steps", "stopped at step 20 of 40",
// "failed: … at step 20 of 40", or that it was killed, if its last session has no end. `step` is
// the last that was recorded, `steps` those of the config (0: unknown).
struct Reached {
  std::int64_t step = 0, steps = 0;
  bool is_tested = false;  // the best model was tested after the last step
};
std::string outcome(const std::vector<Session>& sessions, const Reached& reached);

// Returns the latest 1000 sessions, in their order. Damaged lines are left out.
std::vector<Session> read_sessions(const Run& run);

// Returns those that trained some of the steps [first, last].
std::vector<Session> sessions_within(const std::vector<Session>& sessions, std::int64_t first,
                                     std::int64_t last);

// Returns the settings of a session that differ from those of the last session.
ConfigSettings settings_before(const std::vector<Session>& sessions, std::size_t session);
// Returns whether they are known of all sessions: of those that commit 1259dc1 recorded only if all
// have the same --set.
bool knows_settings(const std::vector<Session>& sessions);

}  // namespace tapestry
