#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/aliases.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// What is trained on in tests, of a kind of data: files, and few of what is drawn.
struct SmallData {
  std::map<std::string, std::string> files = {};  // text by name
  Strings data = {};                              // keys to find and split it by
  Strings few = {};                               // keys that keep trainings short
  Strings sample = {};                            // what is asked of the trained model
};

// `kind` as data.kind has it. Defined beside the smoke test.
SmallData small_data_of(const std::string& task, const std::string& kind);

// Returns a setting that is a text, or "" if the config's task does not have the key.
inline std::string text_setting(const Config& config, const std::string& key) {
  return config.has(key) ? std::get<std::string>(config.value(key)) : "";
}

// A shipped config without a result to compare with is a preset, to build on.
bool is_preset(const Config& config);
// Keys that make a preset's model small, with as many heads; of other configs none.
Strings small_preset(const Config& config);

}  // namespace tapestry
