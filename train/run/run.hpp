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

// The later one of the states that a run keeps, for the best model is a whole checkpoint as well;
// nothing where it has written none. InputError where one is damaged or, by metrics.jsonl, another
// run's.
std::optional<Checkpoint> latest_checkpoint(const Run& run);

// The model in a run's folder is not the one that the run recorded.
class ForeignModel final : public InputError {
 public:
  using InputError::InputError;
};

// The checkpoint that RUN means, without its tensors: of a folder its best, or the last where there
// is no best; or the file itself. InputError where there is none, or where metrics.jsonl recorded
// its evaluation without a checksum; ForeignModel where the metrics.jsonl beside best.safetensors
// or checkpoint.safetensors recorded other parameters.
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
