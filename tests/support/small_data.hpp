#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/aliases.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// Small data of one kind: files, or few synthetic examples.
struct SmallData {
  std::map<std::string, std::string> files = {};  // text by name
  Strings data = {};                              // keys to find and split it by
  Strings few = {};                               // keys that keep trainings short
  Strings sample = {};                            // what is asked of the trained model
};

// `kind` as data.kind has it.
SmallData small_data_of(const std::string& task, const std::string& kind);

// Returns a setting that is a text, or "" if the config's task does not have the key.
inline std::string text_setting(const Config& config, const std::string& key) {
  return config.has(key) ? std::get<std::string>(config.value(key)) : "";
}

// Returns whether the shipped config is a preset: it has no expected result.
bool is_preset(const Config& config);
// Returns keys that make the model of a preset, or one as wide, small with the same heads; none for
// other configs.
Strings small_preset(const Config& config);

// Trains every shipped config of the given tasks, and uses the runs. Several test cases share the
// tasks, because they run at the same time.
void smoke_test(const std::function<bool(const std::string& task)>& is_wanted);
inline bool is_of_language(const std::string& task) {
  return task == "language-model" || task == "translation" || task == "text-classification";
}

}  // namespace tapestry
