#pragma once

#include <map>
#include <string>

#include "train/commands/command.hpp"
#include "train/inspect/inspector.hpp"

namespace tapestry {

// "INT", as the help shows it.
const char* option_type(const Value& value);

using OptionOfTasks = std::vector<std::pair<std::string, KeyInfo>>;

// What the option does; where that differs, for each task.
std::string joined_help(const OptionOfTasks& of_tasks);

bool may_be_repeated(const OptionOfTasks& of_tasks);

// InputError where no task would take this text.
void expect_suits_one(const OptionOfTasks& of_tasks, const std::string& text);

// The options of a kind of view, of every task together: which of them a run takes is known when it
// has been loaded. What is typed is checked by each task that knows the option, must suit one of
// them, and goes to `typed`.
template <class Shown>
void declare_options(Arguments& arguments, TypedOptions& typed) {
  std::map<std::string, OptionOfTasks> known;
  for (const auto& [task, view] : inspectors<Shown>())
    for (const KeyInfo& option : view.options) known[option.name].push_back({task, option});
  for (const auto& [name, of_tasks] : known)
    arguments.option(
        "--" + name, option_type(of_tasks.front().second.fallback),
        [&typed, name = name, of_tasks = of_tasks](const std::string& text) {
          expect_suits_one(of_tasks, text);
          typed.emplace_back(name, text);
        },
        joined_help(of_tasks), may_be_repeated(of_tasks));
}

}  // namespace tapestry
