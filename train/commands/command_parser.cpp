#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "autograd/check.hpp"
#include "train/commands/command_line.hpp"
#include "train/config/config.hpp"
#include "train/config/keys.hpp"
#include "train/config/options.hpp"
#include "train/config/settings.hpp"
#include "train/run/version.hpp"

// The only source that includes CLI11, because its headers take seconds to compile.
namespace tapestry {

std::map<std::string, CommandType>& command_registry() {
  static std::map<std::string, CommandType> registry;
  return registry;
}

namespace {

// The options of the program, which stand before the command.
constexpr const char *plugin_option = "--plugin", *rebuilt_option = "--rebuilt-plugin";

// Returns the type of an option's text, as the help shows it.
std::string type_of(const std::string& name) {
  static const std::map<std::string, std::string> types{
      {"--adapter", "DIR"},      {"--base", "RUN"},     {"--data", "DIR"},
      {"--documents", "NAME"},   {"--dtype", "NAME"},   {"--format", "NAME"},
      {"--from", "RUN"},         {"--image", "FILE"},   {"--label", "COLUMN"},
      {"--layer", "NAME"},       {"--out", "PATH"},     {"--pieces", "NAME"},
      {"--prompt-file", "FILE"}, {"--prompts", "FILE"}, {"--task", "NAME"},
      {"--tokenizer", "FILE"}};
  const auto found = types.find(name);
  return found == types.end() ? "TEXT" : found->second;
}

// Returns what is wrong with a name that the user typed, for CLI11; empty if nothing is.
std::string complaint_of_name(const std::string& text) {
  return text.empty() ? "expected a name, found nothing" : "";
}

// Returns the help of a group, which joins that of its commands.
std::string group_help(const std::string& group) {
  std::vector<std::string> helps;
  for (const auto& [name, type] : command_registry())
    if (name.starts_with(group + " ")) helps.push_back(type.help);
  return fmt::format("{}", fmt::join(helps, "; "));
}

// Adds a command with its arguments to the program's: "tokenizer train" as train of the group
// tokenizer. Returns the command's parser.
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

// Returns the command that was given, for a group the command within it, or the program if none was
// given.
const CLI::App& typed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Returns the first argument without a leading "=", "20" of {"=", "20"}, that is not empty.
std::string text_after_equals(const std::vector<std::string>& extras) {
  for (const std::string& extra : extras)
    if (extra != "=") return extra.substr(extra.starts_with('='));
  return "VALUE";
}

// Returns the key that is common to all configs and has the name of an option, "train.steps" for
// "--steps"; "" if there is none, or if the command has no --set.
std::string key_of_option(const CLI::App& app, std::string option) {
  if (!option.starts_with("--") || !typed_command(app).get_option_no_throw("--set")) return "";
  std::ranges::replace(option, '-', '_');
  const std::string end = "." + option.substr(2, option.find('=') - 2);
  for (const KeyInfo& key : key::with_common_keys({}))
    if (key.name.ends_with(end)) return key.name;
  return "";
}

// Returns the message for unexpected arguments, with the most similar option of the command:
// "--threads" for "--thread".
std::string advice(const CLI::App& app, const std::vector<std::string>& extras) {
  if (const CLI::Option* set = typed_command(app).get_option_no_throw("--set"))
    for (const std::string& value : set->results())
      if (value.find('=') == value.npos)
        return fmt::format("--set {}: expected key=value without spaces, such as {}={}", value,
                           value, text_after_equals(extras));
  const bool is_setting = extras.front().find('=') != std::string::npos;
  if (is_setting && typed_command(app).get_option_no_throw("--set"))
    return fmt::format("unexpected {}; write --set before each setting: --set {}", extras.front(),
                       extras.front());
  if (!extras.front().starts_with('-'))
    return fmt::format("unexpected {}; --help lists what is expected", extras.front());
  const std::string option = extras.front().substr(0, extras.front().find('='));
  if (option == plugin_option || option == rebuilt_option)
    return fmt::format("unexpected {0}; give it before the command: tapestry {0} FILE {1}", option,
                       typed_command(app).get_name());
  std::vector<std::string> names;
  for (const CLI::Option* known : typed_command(app).get_options())
    if (!known->get_positional()) names.push_back(known->get_name());
  if (const std::string key = key_of_option(app, extras.front()); !key.empty())
    return fmt::format("unexpected {}; set the key of the config with --set {}=VALUE",
                       extras.front(), key);
  const std::string similar = did_you_mean(extras.front(), names);
  return fmt::format("unexpected {}{}", extras.front(),
                     similar.empty() ? "; --help lists the options" : similar);
}

// Throws InputError for an unknown command, which CLI11 reports as a missing one. `words` are the
// arguments after `app`, the program or a group of commands, of which `group` is the name and a
// space.
void expect_command(const CLI::App& app, std::span<char*> words, const std::string& group = "") {
  const std::vector<const CLI::App*> known = app.get_subcommands({});
  if (known.empty()) return;
  std::vector<std::string> names;
  for (const CLI::App* command : known) names.push_back(group + command->get_name());
  const std::string first = words.empty() ? "" : words.front();
  expect_input(!first.empty(), "COMMAND is required; expected one of {}", fmt::join(names, ", "));
  if (first.starts_with('-')) {
    expect_input(app.get_option_no_throw(first) != nullptr,
                 "unknown option {}{} (expected COMMAND, --help, --version or --plugin FILE)",
                 first, did_you_mean(first, {"--help", "--version", plugin_option}));
    return;
  }
  const auto found = std::ranges::find(names, group + first);
  expect_input(found != names.end(), "unknown command {}{} (commands: {})", group + first,
               did_you_mean(group + first, names), fmt::join(names, ", "));
  expect_command(*known[found - names.begin()], words.subspan(1), *found + " ");
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

void Arguments::place(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->required()->check(complaint_of_name)->type_name("");
}

void Arguments::places(const std::string& name, std::vector<std::string>& values,
                       const std::string& help, bool required) {
  app_.add_option(name, values, help)->required(required)->check(complaint_of_name)->type_name("");
}

void Arguments::option(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->check(complaint_of_name)->type_name(type_of(name));
}

void Arguments::option(const std::string& name, std::int64_t& value, const std::string& help,
                       AllowedRange range) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  Limits limits{.low = static_cast<double>(range.low)};
  if (range.high < largest) limits.high = static_cast<double>(range.high);
  const Key<std::int64_t> number{name.substr(2), 0, help, limits};
  const auto expect_number = [number](const std::string& text) {
    Options({number}).set(number.name, text);  // throws InputError
    return "";
  };
  app_.add_option(name, value, help)->check(expect_number)->type_name("N");
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
  option->type_name(type.empty() ? type_of(name) : type);
}

void Arguments::option(const std::string& name, std::vector<std::string>& values,
                       const std::string& type, const std::string& help) {
  app_.add_option(name, values, help)->type_name(type)->allow_extra_args(false);
}

void Arguments::setting(const KeyInfo& key, std::vector<std::string>& overrides) {
  KeyInfo option = key;
  option.name = option_name(key.name);
  std::ranges::replace(option.name, '_', '-');
  const bool is_list = std::holds_alternative<std::vector<std::string>>(key.fallback);
  const bool is_number = std::holds_alternative<std::int64_t>(key.fallback);
  const auto set = [&overrides, option, is_list, beginning = key.name + "=",
                    texts = std::vector<std::string>()](const std::string& text) mutable {
    if (!is_list) Options({option}).set(option.name, text);  // throws InputError
    texts.push_back(text);
    std::erase_if(overrides,
                  [&](const std::string& other) { return other.starts_with(beginning); });
    overrides.push_back(beginning + (is_list ? to_toml(Value(texts)) : text));
  };
  this->option("--" + option.name,
               is_list     ? "KEY=VALUES"
               : is_number ? "N"
                           : "TEXT",
               set, fmt::format("{} (default: {})", help_with_choices(key), key.name), is_list);
}

void Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
}

void Arguments::moved(const std::string& name, const std::string& what) {
  const auto refuse = [name, what](const std::vector<std::string>&) {
    throw InputError(fmt::format("{}: {}", name, what));
  };
  app_.add_option_function<std::vector<std::string>>(name, refuse)
      ->expected(0, 1)
      ->group("");  // hides the option in the help
}

void Arguments::config(std::string& value) {
  place("CONFIG", value, "a TOML file, or the name of a shipped config");
}

void Arguments::run(std::string& value) {
  place("RUN", value, "the folder of a run, or a checkpoint file");
}

void Arguments::adapter(std::string& value) {
  option("--adapter", value,
         "folder of a LoRA adapter (peft format) to add to the model (default: none)");
}

void Arguments::overrides(std::vector<std::string>& values) {
  option("--set", values, "KEY=VALUE",
         "set a key of the config, as in train.steps=100; may be repeated");
}

void Arguments::threads(std::int64_t& value) {
  option("--threads", value, "number of threads (default: one per physical core)",
         {.low = 1, .high = 1024});
}

std::vector<GivenPlugin> take_plugins(std::span<char*>& words) {
  std::vector<GivenPlugin> plugins;
  while (!words.empty()) {
    const std::string word = words.front(), name = word.substr(0, word.find('='));
    const bool has_value = name.size() < word.size();
    const std::size_t length = has_value ? 1 : 2;
    if ((name != plugin_option && name != rebuilt_option) || words.size() < length) break;
    plugins.push_back({.file = has_value ? word.substr(name.size() + 1) : words[1],
                       .is_rebuilt = name == rebuilt_option});
    words = words.subspan(length);
  }
  return plugins;
}

CommandDescription describe_command(const std::string& name) {
  CLI::App app;
  const std::unique_ptr<Command> command = command_registry().at(name).make();
  const CLI::App& declared = declare(app, name, *command);
  CommandDescription description{.help = declared.get_description()};
  for (const CLI::Option* option : declared.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    description.options.push_back({.name = option->get_name(option->get_positional()),
                                   .help = option->get_description(),
                                   .positional = option->get_positional(),
                                   .required = option->get_required(),
                                   .repeated = option->get_expected_max() > 1,
                                   .flag = option->get_expected_max() == 0});
  }
  return description;
}

// What the program prints if it is given no command.
constexpr const char* first_steps =
    "Tapestry trains small neural networks; a TOML file describes a training. First steps:\n"
    "  tapestry train karate     trains a graph network in a second; then: tapestry sample "
    "runs/karate\n"
    "  tapestry init FILE        reads your own data (text, table, pictures, series, graph), and "
    "says what to run\n"
    "  tapestry guide            lists the pages of the user guide, and prints them\n"
    "  tapestry --help           lists all commands\n";

CommandLine parse_command_line(int argc, char** argv) {
  CLI::App app(
      "Trains small transformers, convolutional, graph and recurrent networks, and autoencoders. "
      "One TOML file describes a training.",
      "tapestry");
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", fmt::format("tapestry {}, {}", version(), machine()),
                       "print version, commit, instruction level, kernels and number of threads");
  std::vector<std::string> plugins;  // run_command_line() loads them
  for (const auto& [option, help] :
       {std::pair{plugin_option, "load a shared library with tasks of your own; may be repeated"},
        {rebuilt_option, "the same, also for runs that another build of it trained"}})
    app.add_option(option, plugins, help)->type_name("FILE")->allow_extra_args(false);
  app.require_subcommand(1);
  app.get_formatter()->label("REQUIRED", "");  // the usage line shows what is optional
  std::vector<std::unique_ptr<Command>> commands;
  CommandLine typed;
  for (const auto& [name, type] : command_registry()) {
    commands.push_back(type.make());
    CLI::App& place = declare(app, name, *commands.back());
    place.callback(
        [&typed, &commands, i = commands.size() - 1] { typed.command = std::move(commands[i]); });
  }
  try {
    std::span<char*> words = std::span(argv, argc).subspan(std::min(argc, 1));
    take_plugins(words);
    if (words.empty()) return {.text = first_steps, .status = wrong_input_status};
    expect_command(app, words);
    app.parse(argc, argv);
    return typed;
  } catch (const CLI::CallForHelp&) {
    return {.text = app.help()};  // that of the given command
  } catch (const CLI::CallForVersion& version) {
    return {.text = fmt::format("{}\n", version.what())};
  } catch (const CLI::ExtrasError&) {
    throw InputError(advice(app, app.remaining(true)));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--out: At Most 1 required but received 2"
    throw InputError(fmt::format(
        "{}: {}; --help lists the options", message.substr(0, message.find(':')),
        message.find("At Most") != std::string::npos ? "was given more than once"
                                                     : "expected a value after this option"));
  } catch (const CLI::ParseError& error) {
    throw InputError(one_line(error.what()) + "; --help lists what is expected");
  }
}

}  // namespace tapestry
