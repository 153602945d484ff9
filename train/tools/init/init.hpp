#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/inspect/recognized.hpp"
#include "train/tools/plan/plan.hpp"

namespace tapestry {

// Data of a user, and the task that trains on them.
struct FoundData {
  std::string path{}, task{};
  Recognized data{};
  std::vector<std::string> others{};  // further kinds that they can be, for --task
};

// Returns what the registered tasks find at a path. `wanted` is the name of a kind of data or of a
// task, or empty. Throws InputError if no task reads the data, or if several kinds are possible and
// `wanted` does not choose one.
FoundData recognize_data(const std::string& path, const std::string& wanted);

// A config for data, which is not written yet.
struct NewConfig {
  std::string toml{};
  TrainingPlan plan{};
  RunLength length{};
  double seconds = 0;                   // estimated time of the whole training
  double epochs = 0;                    // passes over the training examples
  std::vector<std::string> problems{};  // of so few steps, or of the memory
};

struct NewConfigOptions {
  std::string out{};         // path of the config
  double minutes = 10;       // time of the training
  std::int64_t machine = 0;  // bytes of memory; 0: that of this machine
};

// Returns a config with as many steps as fit options.minutes at the measured speed. Throws
// InputError if not one step fits, if the training does not fit into the memory, or if the speed
// cannot be measured.
NewConfig make_config(const FoundData& found, const NewConfigOptions& options);

// Throws InputError if `out` is not the name of a new *.toml file in an existing folder.
void expect_new_config(const std::string& out);

std::string show(const FoundData& found);
std::string show(const NewConfig& config);
std::string json(const FoundData& found, const NewConfig& config, const std::string& out);

}  // namespace tapestry
