#include "train/commands/view_arguments.hpp"

#include <algorithm>

namespace tapestry {

const char* option_type(const Value& value) {
  if (std::holds_alternative<std::int64_t>(value)) return "INT";
  return std::holds_alternative<double>(value) ? "FLOAT" : "TEXT";
}

std::string joined_help(const OptionOfTasks& of_tasks) {
  const std::string& first = of_tasks.front().second.help;
  if (std::ranges::all_of(of_tasks, [&](const auto& one) { return one.second.help == first; }))
    return first;
  std::string help;
  for (const auto& [task, option] : of_tasks)
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", task, option.help);
  return help;
}

bool may_be_repeated(const OptionOfTasks& of_tasks) {
  return std::ranges::any_of(of_tasks, [](const auto& one) { return one.second.limits.repeated; });
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

}  // namespace tapestry
