#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.hpp"
#include "train/config/config_document.hpp"
#include "train/run/checkpoint.hpp"

namespace tapestry {

// The folder of one training.
class Run {
 public:
  explicit Run(std::string folder) : folder_(std::move(folder)) {}

  // Returns the default folder of a run named `name`: for a new run runs/<name>, or the first
  // unused one of runs/<name>-2, -3, …; with `resume`, the last existing one, or runs/<name> if
  // none exists. Throws InputError if `name` is not a valid folder name.
  static std::string default_folder(const std::string& name, bool resume);

  const std::string& folder() const { return folder_; }
  std::string config() const { return folder_ + "/config.toml"; }
  std::string metrics() const { return folder_ + "/metrics.jsonl"; }
  std::string checkpoint() const { return folder_ + "/checkpoint.safetensors"; }
  std::string best() const { return folder_ + "/best.safetensors"; }
  // The checkpoint of the last step before the decay of a wsd schedule.
  std::string before_decay() const { return folder_ + "/before_decay.safetensors"; }
  // The best model of that step, if there was one.
  std::string best_before_decay() const { return folder_ + "/best_before_decay.safetensors"; }
  std::string trace() const { return folder_ + "/trace.json"; }
  std::string profile() const { return folder_ + "/profile.txt"; }
  std::string sessions() const { return folder_ + "/sessions.jsonl"; }
  std::string checksums() const { return folder_ + "/checksums.jsonl"; }
  std::string samples() const { return folder_ + "/samples.jsonl"; }
  std::string baselines() const { return folder_ + "/baselines.jsonl"; }
  // A file that only the folder of a search has, which contains runs (tools/search/).
  std::string ledger() const { return folder_ + "/ledger.jsonl"; }

  std::vector<std::string> files() const {  // returns the paths of all files that a run writes
    return {config(),  metrics(),      checksums(),         checkpoint(),
            best(),    before_decay(), best_before_decay(), trace(),
            profile(), sessions(),     samples(),           baselines()};
  }

 private:
  std::string folder_;
};

// Returns the folders that `tapestry train --seeds` created in this folder, sorted by seed, without
// runs that have no metrics yet. Empty for a folder of a single run.
std::vector<std::string> seed_folders(const std::string& folder);

// Returns each folder once, without a trailing slash. Different paths of one folder count as one.
std::vector<std::string> different_folders(const std::vector<std::string>& folders);

// Returns whether a process trains the run, that is, holds its RunLock (run_lock.hpp).
bool is_trained_into(const Run& run);

// --- records of a run (lines.hpp reads its lines, session.hpp its sessions) ---

// Returns the error for a folder that does not exist.
InputError no_such_run(const std::string& folder);

// Throws InputError, which names the command that resumes a search, if the folder is that of one.
void expect_no_search(const Run& run);

// Throws InputError if the folder does not exist, is a file or a search, or lacks all these files.
void expect_run(const Run& run, const std::vector<std::string>& files);

// Returns the config of a run's last session, which config.toml records. Throws InputError for an
// invalid file or override.
Config recorded_config(const Run& run, const std::vector<std::string>& overrides = {});
// Returns the same for tools that only read what was recorded, without the plug-in that the run
// requires (config_as_recorded of task_spec.hpp).
Config config_as_recorded(const Run& run);
// Returns the config of a checkpoint; the plug-in is that of the run's last session, which may have
// accepted another build of it. Throws InputError for an invalid config or override.
Config config_of(const Checkpoint& checkpoint, const std::vector<std::string>& overrides = {});
// Returns the text of config.toml. Throws InputError if the file cannot be read, or exceeds 1 MiB.
std::string config_text(const Run& run);

// The error for a checkpoint in a run's folder that the run did not record.
class ForeignModel final : public InputError {
 public:
  using InputError::InputError;
};

// Returns the latest one of checkpoint.safetensors, best.safetensors, which is a whole checkpoint
// as well, and before_decay.safetensors, without tensors; nothing if there is none. Throws
// InputError if one is damaged, and ForeignModel if metrics.jsonl recorded other parameters at its
// step.
std::optional<Checkpoint> latest_checkpoint(const Run& run);

// Returns a checkpoint in a run's folder without its tensors. Throws as latest_checkpoint does.
Checkpoint load_recorded_metadata(const std::string& path);

// Returns the checkpoint that RUN names, without tensors: for a folder its best, or the last one if
// there is no best; or the file itself. Throws as latest_checkpoint and expect_run do.
Checkpoint load_trained_metadata(const std::string& run);

// Returns the part of the config of load_trained_metadata(run) that determines the shapes of its
// weights: task, model and tokenizer. Throws as that does.
ConfigDocument model_settings(const std::string& run);

// A trained model that is ready to use.
struct TrainedModel {
  Config config;
  std::unique_ptr<Task> task;
  TrainingState state;
};

// Return the model of load_trained_metadata(run), or of a checkpoint. `overrides` change its
// config; `whole_data` is that of TaskSetup. Throw InputError as load_trained_metadata, make_task
// and restore_parameters do.
TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data, bool whole_data = false);
TrainedModel load_trained(const Checkpoint& checkpoint, Config config, bool needs_data,
                          bool whole_data = false);

}  // namespace tapestry
