#pragma once

#include <map>
#include <string>
#include <vector>

namespace tapestry {

using ConfigSettings = std::map<std::string, std::string>;  // Config::settings()

// Returns why the result that a config's [expected] names is not to be compared with what a
// training under `settings` came to: data, model, tokenizer, steps or another key differ from those
// of the config that it was measured with, "train.steps = 300, sort has 1500". Empty where they do
// not, as in a config of one's own. That config is a shipped one with the same [expected], or else
// `written`: the config as its file has it, without --set.
std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written);

}  // namespace tapestry
