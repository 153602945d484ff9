#include "train/commands/inspector_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tapestry {
namespace {

// Declarations of one option, each with the name of the task that has it.
using OptionOfTasks = std::vector<std::pair<std::string, KeyInfo>>;

// Returns the type as the help shows it; empty for a text.
const char* option_type(const KeyInfo& option) {
  if (std::holds_alternative<std::int64_t>(option.fallback)) return "N";
  if (std::holds_alternative<double>(option.fallback)) return "NUMBER";
  return option.limits.choices.empty() ? "" : "NAME";
}

// Returns the help of an option with its choices and its default.
std::string help_of(const KeyInfo& option) {
  const std::string help = help_with_choices(option);
  if (help.find("default") != help.npos) return help;
  const auto* text = std::get_if<std::string>(&option.fallback);
  if (!text) return fmt::format("{} (default: {})", help, to_toml(option.fallback));
  return fmt::format("{} (default: {})", help, text->empty() ? "none" : *text);
}

// Returns the help of the option; for each task if they differ.
std::string joined_help(const OptionOfTasks& of_tasks) {
  const std::string first = help_of(of_tasks.front().second);
  if (std::ranges::all_of(of_tasks, [&](const auto& one) { return help_of(one.second) == first; }))
    return first;
  std::string help;
  for (const auto& [task, option] : of_tasks)
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", task, help_of(option));
  return help;
}

void expect_suits_one(const OptionOfTasks& of_tasks, const std::string& text) {
  std::string complaint;
  for (const auto& [task, option] : of_tasks) try {
      Options({option}).set(option.name, text);
      return;
    } catch (const InputError& error) {
      complaint = error.what();
    }
  throw InputError(complaint);
}

}  // namespace

void declare_options(Arguments& arguments,
                     const std::map<std::string, std::vector<KeyInfo>>& options_of_tasks,
                     TypedOptions& typed) {
  std::map<std::string, OptionOfTasks> known;
  for (const auto& [task, options] : options_of_tasks)
    for (const KeyInfo& option : options) known[option.name].push_back({task, option});
  for (const auto& [name, of_tasks] : known)
    arguments.option(
        "--" + name, option_type(of_tasks.front().second),
        [&typed, name = name, of_tasks = of_tasks](const std::string& text) {
          expect_suits_one(of_tasks, text);
          typed.emplace_back(name, text);
        },
        joined_help(of_tasks),
        std::ranges::any_of(of_tasks, [](const auto& one) { return one.second.limits.repeated; }));
}

}  // namespace tapestry
