#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "train/config/config_document.hpp"
#include "train/config/settings.hpp"

namespace tapestry {

// A setting of a generated config, and the comment beside it.
struct ChosenSetting {
  std::string key;
  Value value;
  std::string comment{};
};

// Data of a user, and the settings "key=value" that the user gave for them.
struct UserData {
  std::string path{};
  std::vector<std::string> overrides{};
  std::string label{};  // the column of the labels; empty: not given
};

// What a task found in data that a user has, and how to train on them. `tapestry init` shows it and
// writes it as a config.
struct Recognized {
  enum class Fit {
    refused,     // the task cannot read the data
    similar,     // it cannot, but the data look like this kind
    on_request,  // it can, but the data look like another kind
    possible,    // the data may be of this kind or of another one
    certain
  };
  std::string name{};  // kind of data, for --task: "forecast"
  std::string kind{};  // kind of data, in messages: "time series"
  Fit fit = Fit::refused;
  std::string refusal{};                  // why the task cannot read the data
  bool asks = false;                      // the refusal says what decides it
  JsonValue facts = JsonValue::object();  // numbers and texts by name: {"lines": 40000}
  std::vector<std::string> problems{};
  std::string base{};                     // the shipped config that the new config is based on
  std::vector<ChosenSetting> settings{};  // keys that differ from it, without data.path
  // Changes of the settings that make steps faster, each on top of those before it: `init` makes
  // them if too few steps fit the time.
  std::vector<std::vector<ChosenSetting>> smaller{};
  double examples = 0;     // number of training examples, without overlaps
  double most_epochs = 0;  // maximum number of epochs, to prevent overfitting
  bool is_small = false;   // kinds of models can be compared in short trainings
};

// Returns what `fill` sets; if it throws InputError, a refusal with this message, whose fit is
// `similar` if `fill` has set that, and otherwise `refused`.
template <class Fill>
Recognized recognized_as(std::string name, std::string kind, Fill fill) {
  Recognized found{.name = std::move(name), .kind = std::move(kind)};
  try {
    fill(found);
  } catch (const InputError& error) {
    found.asks = dynamic_cast<const Undecided*>(&error) != nullptr;
    if (found.fit != Recognized::Fit::similar) found.fit = Recognized::Fit::refused;
    found.refusal = error.what();
  }
  return found;
}

}  // namespace tapestry
