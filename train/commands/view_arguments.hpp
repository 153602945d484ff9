#pragma once

#include <map>
#include <string>

#include "train/commands/command.hpp"
#include "train/view.hpp"

namespace tapestry {

// As the help shows it.
inline const char* option_type(const Value& value) {
  if (std::holds_alternative<std::int64_t>(value)) return "INT";
  return std::holds_alternative<double>(value) ? "FLOAT" : "TEXT";
}

// The options of a kind of view, of every task together: which of them a run takes is known when it
// has been loaded. What is typed goes to `typed` by name.
template <class Shown>
void declare_options(Arguments& arguments, std::map<std::string, std::string>& typed) {
  std::map<std::string, KeyInfo> known;
  for (const auto& [task, view] : views<Shown>())
    for (const KeyInfo& option : view.options) {
      const auto [found, is_new] = known.insert({option.name, option});
      std::string& help = found->second.help;
      if (!is_new && help.find(option.help) == std::string::npos) help += "; " + option.help;
    }
  for (const auto& [name, option] : known)
    arguments.option(
        "--" + name, option_type(option.fallback),
        [&typed, name = name](const std::string& text) { typed[name] = text; }, option.help);
}

}  // namespace tapestry
