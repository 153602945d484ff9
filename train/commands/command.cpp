#include "train/commands/command.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "train/commands/declare.hpp"

namespace tapestry {

std::map<std::string, CommandType>& command_registry() {
  static std::map<std::string, CommandType> registry;
  return registry;
}

namespace {

// What is wrong with a name that was typed, for CLI11.
std::string complaint_of_name(const std::string& text) {
  return text.empty() ? "expected a name, found nothing" : "";
}

}  // namespace

void Arguments::place(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->required()->check(complaint_of_name);
}

void Arguments::places(const std::string& name, std::vector<std::string>& values,
                       const std::string& help, bool required) {
  app_.add_option(name, values, help)->required(required)->check(complaint_of_name);
}

void Arguments::option(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->check(complaint_of_name);
}

void Arguments::option(const std::string& name, std::int64_t& value, const std::string& help,
                       AllowedRange range) {
  // CLI11 takes one that does not fit into 64 bits for the greatest that does.
  const auto complaint_of_number = [range](const std::string& text) {
    errno = 0;
    std::strtoll(text.c_str(), nullptr, 10);
    return errno == ERANGE
               ? fmt::format("Value {} not in range {} to {}", text, range.low, range.high)
               : "";
  };
  app_.add_option(name, value, help)
      ->check(complaint_of_number)
      ->check(CLI::Range(range.low, range.high));
}

void Arguments::option(const std::string& name, const std::string& type,
                       std::function<void(const std::string&)> set, const std::string& help,
                       bool repeated) {
  const auto set_all = [set](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) set(text);
  };
  CLI::Option* option =
      repeated ? app_.add_option_function<std::vector<std::string>>(name, set_all, help)
                     ->allow_extra_args(false)
               : app_.add_option_function<std::string>(name, set, help);
  option->type_name(type);
}

void Arguments::option(const std::string& name, std::vector<std::string>& values,
                       const std::string& type, const std::string& help) {
  app_.add_option(name, values, help)->type_name(type)->allow_extra_args(false);
}

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
}

void Arguments::config(std::string& value) {
  place("CONFIG", value, "a TOML file, or the name of a shipped config");
}

void Arguments::run(std::string& value) { place("RUN", value, "a run's folder, or a checkpoint"); }

void Arguments::adapter(std::string& value) {
  option("--adapter", value, "add the adapter of this folder to the model, as peft keeps one");
}

void Arguments::overrides(std::vector<std::string>& values) {
  option("--set", values, "KEY=VALUE", "set a key of the config: key=value");
}

void Arguments::threads(std::int64_t& value) {
  option("--threads", value, "by default one a physical core", {.low = 1, .high = 1024});
}

namespace {

// What the one command of a group does, or the second words of several.
std::string group_help(const std::string& group) {
  std::vector<std::string> words, helps;
  for (const auto& [name, type] : command_registry()) {
    if (!name.starts_with(group + " ")) continue;
    words.push_back(name.substr(group.size() + 1));
    helps.push_back(type.help);
  }
  return words.size() == 1 ? helps.front() : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

CLI::App& declare(CLI::App& app, const std::string& name, Command& command) {
  const std::string& help = command_registry().at(name).help;
  CLI::App* place = &app;
  const std::size_t space = name.find(' ');
  if (space != std::string::npos) {
    const std::string group = name.substr(0, space);
    const std::vector<CLI::App*> known = app.get_subcommands({});
    const auto found = std::ranges::find(known, group, &CLI::App::get_name);
    place = found != known.end() ? *found : app.add_subcommand(group, group_help(group));
    place->require_subcommand(1);
  }
  place = place->add_subcommand(space == std::string::npos ? name : name.substr(space + 1), help);
  Arguments arguments(*place);
  command.declare(arguments);
  return *place;
}

}  // namespace tapestry
