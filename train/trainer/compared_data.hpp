#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

// The comparison of splits that a command has read with those of the run's training, by checksum.
struct ComparedData {
  enum class Outcome { same, changed, other, not_recorded, built_in };  // other: chosen by --set
  struct Split {
    std::string name{};  // "train", "validation" or "test"
    Outcome outcome = Outcome::same;
    std::string found{}, recorded{};  // checksums
  };
  std::vector<Split> splits{};
  bool counts_trained_on = false;            // whether the next fields are used
  std::optional<std::int64_t> trained_on{};  // number of examples that were trained on
  std::string unknown{};                     // why trained_on is unknown
  std::int64_t examples = 0;                 // of the evaluated split

  // Returns a line for each split that changed, and one on the examples that were trained on; or
  // "".
  std::string text() const;
  // Returns an object of "data", the outcome by split, as in {"data": {"validation": "same"}},
  // unless no split was read, and of "trained_on" (null: unknown), if that was counted.
  JsonValue json() const;
};

// Returns whether --set chooses other data than those of the training.
bool chooses_data(const std::vector<std::string>& overrides);

// Compares splits of the model's task; leaves out null, and data that are no split. `overrides` are
// those of its config.
ComparedData compare_data(const TrainedModel& trained, const std::vector<const Dataset*>& read,
                          const std::vector<std::string>& overrides = {});

// Compares the split that an inspector has shown, if it has shown one, and unless the typed options
// or --set choose other examples.
ComparedData compare_shown(const TrainedModel& trained, const TypedOptions& typed,
                           const std::vector<std::string>& overrides);

// Compares the split that was evaluated with a model of load_trained(run, overrides, true). If it
// is not one of the training, because `overrides` choose other data or because it is no split, also
// counts the examples whose inputs were trained on.
ComparedData compare_evaluated(const std::string& run, const TrainedModel& trained,
                               const Dataset& evaluated, const std::vector<std::string>& overrides);

}  // namespace tapestry
