#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run/checkpoint.hpp"

namespace tapestry {

// The folder of one training.
class Run {
 public:
  explicit Run(std::string folder) : folder_(std::move(folder)) {}

  // Where a new or resumed run named `name` goes when --out does not say: runs/<name>; a new run
  // beside an earlier one is runs/<name>-2, -3, …, and the last of these is the one resumed.
  static std::string default_folder(const std::string& name, bool resume);

  const std::string& folder() const { return folder_; }
  std::string config() const { return folder_ + "/config.toml"; }
  std::string metrics() const { return folder_ + "/metrics.jsonl"; }
  std::string checkpoint() const { return folder_ + "/checkpoint.safetensors"; }
  std::string best() const { return folder_ + "/best.safetensors"; }
  std::string trace() const { return folder_ + "/trace.json"; }
  std::string profile() const { return folder_ + "/profile.txt"; }
  std::string sessions() const { return folder_ + "/sessions.jsonl"; }
  std::string checksums() const { return folder_ + "/checksums.jsonl"; }
  std::string samples() const { return folder_ + "/samples.jsonl"; }

  std::vector<std::string> files() const {  // all of the above
    return {config(), metrics(), checksums(), checkpoint(), best(),
            trace(),  profile(), sessions(),  samples()};
  }

 private:
  std::string folder_;
};

// The folders of the seeds that `tapestry train --seeds` put into this one, by their numbers, but
// for those that have only just begun and measured nothing yet; none in a run's own.
std::vector<std::string> seed_folders(const std::string& folder);

// Each folder once, however it is written, without a slash at its end.
std::vector<std::string> different_folders(const std::vector<std::string>& folders);

bool is_trained_into(const Run& run);  // by a process that holds its RunLock (run_lock.hpp)

// --- what is recorded: damaged, unfinished, foreign ---
// sessions.jsonl (session.hpp) tells which run was resumed, the lines (lines.hpp) which are
// damaged.

// Returns the error for a folder that is not there.
InputError no_such_run(const std::string& folder);

// Throws the error for a path that is no run: it is not there, or holds none of these files of
// one, whatever else it holds, or not yet.
void expect_run(const Run& run, const std::vector<std::string>& files);

// Return the config of a run, as its last session had it (config.toml), and of a checkpoint, as it
// was written. Throw InputError for a file or an override that is no such config.
Config config_of(const Run& run, const std::vector<std::string>& overrides = {});
Config config_of(const Checkpoint& checkpoint, const std::vector<std::string>& overrides = {});
std::string config_text(const Run& run);  // of config.toml, at most 1 MiB

// The model in a run's folder is not the one that the run recorded.
class ForeignModel final : public InputError {
 public:
  using InputError::InputError;
};

// Returns the later of the two checkpoints that a run keeps, without its tensors, because
// best.safetensors is a whole checkpoint as well; nothing if there is none. Throws InputError if
// one is damaged, and ForeignModel if metrics.jsonl recorded other parameters at its step.
std::optional<Checkpoint> latest_checkpoint(const Run& run);

// Returns the checkpoint that RUN means, also without tensors: of a folder its best, or the last if
// there is no best; or the file itself. Throws as latest_checkpoint does, and as expect_run does.
Checkpoint trained_head(const std::string& run);

// A trained model, ready to be used.
struct TrainedModel {
  Config config;
  std::unique_ptr<Task> task;
  TrainingState state;
};

// Of trained_head(run). `overrides` change its config.
TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data);
TrainedModel load_trained(const Checkpoint& checkpoint, const std::vector<std::string>& overrides,
                          bool needs_data);

}  // namespace tapestry
