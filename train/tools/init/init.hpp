#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/inspect/recognized.hpp"
#include "train/task_spec.hpp"
#include "train/tools/plan/plan.hpp"

namespace tapestry {

// Data of a user, and the task that trains on them.
struct FoundData {
  std::string path{}, task{};
  Recognized data{};
  std::vector<std::string> others{};  // other kinds as which the data can be read, for --task
};

// Returns what the registered tasks find at a path. `wanted` is the name of a kind of data or of a
// task, or empty. Throws InputError if the path cannot be read, if `wanted` is unknown, if no task
// reads the data, or if several kinds are possible and `wanted` does not choose one.
FoundData recognize_data(const UserData& given, const std::string& wanted);

// Returns the text of a config that changes these settings of found.data.base.
std::string config_text(const FoundData& found, const std::vector<ChosenSetting>& settings);

// What short trainings of the two cheapest kinds of models reached on the validation split, and the
// baselines on it.
struct Evidence {
  struct Tried {
    std::string name{};
    double value = 0;           // of the metric
    std::int64_t examples = 0;  // number of examples that were trained on; 0: a baseline
  };
  std::string metric{};        // "accuracy", or "rmse" of numbers
  std::vector<Tried> tried{};  // the baselines, then the kinds
  std::string chosen{};        // the best of the kinds; empty: there was no choice
  bool is_cut = false;         // the time limit ended a training before its number of examples
};

// Trains a config's first two kinds of models (TaskSpec::kinds) on the same number of examples: at
// most 40,000, in at most 10 s for each. `with` returns the config with overrides. Returns nothing
// if there are no two kinds that can be trained.
std::optional<std::pair<ModelKind, Evidence>> compare_kinds(const ConfigWith& with,
                                                            const Recognized& data);

// A config for data that is not yet written to a file.
struct NewConfig {
  std::string toml{};
  Evidence evidence{};
  TrainingPlan plan{};
  RunLength length{};
  double seconds = 0;                   // estimated time of the whole training
  double epochs = 0;                    // passes over the training examples
  std::vector<std::string> problems{};  // notes for the user: too few steps, or too little memory
};

struct NewConfigOptions {
  std::string out{};         // path of the config
  double minutes = 10;       // time of the training
  std::int64_t machine = 0;  // bytes of memory; 0: that of this machine
};

// Returns a config with as many steps as fit options.minutes at the measured speed, rounded down to
// two digits, but at most Recognized::most_epochs epochs or 300 steps, whichever is more. Throws
// InputError if not one step fits, if the training does not fit into the memory, if the speed
// cannot be measured, or if the folder of options.out has a file with the name of the base config.
NewConfig make_config(const FoundData& found, const NewConfigOptions& options);

// Throws InputError if `out` is not the name of a new *.toml file in an existing folder.
void expect_new_config(const std::string& out);

// Return lines for a terminal, and a JSON object. `out` is the config's path.
std::string show(const FoundData& found);
std::string show(const NewConfig& config);
JsonValue json_of(const FoundData& found, const NewConfig& config, const std::string& out);

}  // namespace tapestry
