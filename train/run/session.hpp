#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/run/run_lock.hpp"

// The records of sessions.jsonl of a run: the processes that trained it, with time, settings and
// machine. No training depends on them.
namespace tapestry {

using ConfigSettings = std::map<std::string, std::string>;  // values as TOML, by the names of keys

// Returns the value of a setting; empty if it is unused.
std::string value_in(const ConfigSettings& settings, const std::string& name);
// Returns the sorted names of the settings whose values are not all the same.
std::vector<std::string> names_that_differ(const std::vector<const ConfigSettings*>& all);

// A setting that a session changed, as TOML; empty if it is unused.
struct ChangedSetting {
  std::string key{}, before{}, after{};
};

// Returns the settings that differ and affect the result of a training, without the paths of the
// data and of the initial weights.
std::vector<ChangedSetting> changes(const Config& before, const Config& after);

// Returns the changes as text: "train.steps = 900 (before: 600), optim.decay_steps = 600 (before:
// 0)".
std::string to_text(const std::vector<ChangedSetting>& changed);

// A process that trained the run, with its first and last step.
struct Session {
  std::string began{};  // "2026-11-23T03:45:10Z"
  std::int64_t from_step = 0;
  std::string version{}, backends{}, processor{};
  std::int64_t threads = 1, ranks = 1;
  std::vector<std::string> command{};  // command line as typed, at most 4000 bytes
  std::int64_t examples = 0;           // number of training examples
  std::string data{};                  // checksums as in TrainingState
  Checksums splits{};
  // Changes since the session that it resumed. None if it began the run, or if it was recorded by
  // commit 1259dc1, which recorded no changes.
  std::optional<std::vector<ChangedSetting>> changed{};
  struct End {
    std::string at{}, how{};  // "done", "stopped", or "failed: …"
    std::int64_t step = 0;
    std::int64_t tensor_bytes = 0;  // maximum total size of arrays
  };
  std::optional<End> end{};  // none if the process was killed, or still trains
};

std::string processor();  // returns the name of this machine's processor: "AMD EPYC 7B13"

// Record the beginning and the end of this process. Throw std::runtime_error if that fails.
void record_begin(RunLock& lock, const TrainingState& from, std::int64_t ranks,
                  const std::optional<std::vector<ChangedSetting>>& changed = {});
void record_end(RunLock& lock, std::int64_t step, const std::string& how);

// How far a run came, as its metrics.jsonl shows.
struct Reached {
  std::int64_t step = 0, steps = 0;
  bool is_tested = false;  // the best model was evaluated on the test split
};
// Returns how a run ended, if no process trains it: "finished, 40 steps", "stopped at step 20 of
// 40", "failed: … at step 20 of 40", or that it was killed if its last session has no end. `step`
// is the last recorded step, `steps` that of the config (0: unknown).
std::string outcome(const std::vector<Session>& sessions, const Reached& reached);

// Returns the last 1000 sessions, in order, without damaged lines.
std::vector<Session> read_sessions(const Run& run);

// Returns the sessions that trained some of the steps [first, last].
std::vector<Session> sessions_within(const std::vector<Session>& sessions, std::int64_t first,
                                     std::int64_t last);

// Returns the settings of a session that differ from those of the last session.
ConfigSettings settings_before(const std::vector<Session>& sessions, std::size_t session);
// Returns whether the settings of all sessions are known: commit 1259dc1 recorded them only if all
// sessions have the same --set.
bool knows_settings(const std::vector<Session>& sessions);

}  // namespace tapestry
