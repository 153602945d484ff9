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

  // Returns the folder of a run named `name` without --out: runs/<name>, or runs/<name>-2, -3, …,
  // of a new run if that exists. The last of these is resumed. Throws InputError if `name` cannot
  // be the name of a folder.
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

  std::vector<std::string> files() const {  // returns all of the above
    return {config(), metrics(), checksums(), checkpoint(), best(),
            trace(),  profile(), sessions(),  samples()};
  }

 private:
  std::string folder_;
};

// Returns the runs of the seeds that `tapestry train --seeds` trained into this folder, in order,
// without those that have not measured anything yet. A run's own folder has none.
std::vector<std::string> seed_folders(const std::string& folder);

// Returns each folder once, however its path is written, without a slash at its end.
std::vector<std::string> different_folders(const std::vector<std::string>& folders);

// Returns whether a process trains the run: it holds the RunLock (run_lock.hpp).
bool is_trained_into(const Run& run);

// --- what a run recorded (lines.hpp reads its lines, session.hpp its sessions) ---

// Returns the error for a folder that does not exist.
InputError no_such_run(const std::string& folder);

// Throws InputError if the folder does not exist, or has none of these files of a run.
void expect_run(const Run& run, const std::vector<std::string>& files);

// Return the config of a run, as its last session had it (config.toml), and of a checkpoint, as it
// was written. Throw InputError for a file or an override that is no such config.
Config config_of(const Run& run, const std::vector<std::string>& overrides = {});
Config config_of(const Checkpoint& checkpoint, const std::vector<std::string>& overrides = {});
std::string config_text(const Run& run);  // returns config.toml, at most 1 MiB

// A checkpoint in a run's folder is not one that the run recorded.
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
Checkpoint load_trained_metadata(const std::string& run);

// A trained model that can be used.
struct TrainedModel {
  Config config;
  std::unique_ptr<Task> task;
  TrainingState state;
};

// Return the model of load_trained_metadata(run), or of a checkpoint. `overrides` change its
// config.
TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data);
TrainedModel load_trained(const Checkpoint& checkpoint, Config config, bool needs_data);

}  // namespace tapestry
