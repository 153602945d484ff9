#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/commands/command.hpp"
#include "train/config/config.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// The arguments that describe a training: CONFIG, --set, --from and --threads.
struct TrainingArguments {
  std::string config{}, from{};
  std::vector<std::string> overrides{};
  std::int64_t threads = 0;

  void declare(Arguments& arguments);

  // Returns the config with `changes` applied last. With --from, settings of the model that the
  // config does not set are those of that run or checkpoint. If a run is resumed, its data.rules
  // hold unless the config sets them. Throws InputError for an invalid config.
  Config read(const std::vector<std::string>& changes = {}, const Run* resumed = nullptr) const;
};

}  // namespace tapestry
