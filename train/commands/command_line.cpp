#include "train/commands/command_line.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <span>
#include <thread>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "train/commands/command.hpp"
#include "train/commands/declare.hpp"
#include "train/config/config.hpp"
#include "train/distributed/ranks.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

// The command that was typed, of a group the one within it; the program itself before any.
const CLI::App& typed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// "--thread" -> "--threads", among the options of the command it was given to.
std::string advice(const CLI::App& app, const std::vector<std::string>& extras) {
  if (!extras.front().starts_with('-'))
    return fmt::format("unexpected {}; --help lists what is expected", extras.front());
  std::vector<std::string> names;
  for (const CLI::Option* option : typed_command(app).get_options())
    if (!option->get_positional()) names.push_back(option->get_name());
  return fmt::format("unexpected {}{}", extras.front(), did_you_mean(extras.front(), names));
}

// CLI11 would take a misspelt command for a missing one. `words` are what was typed behind `app`,
// the program or a group of commands, of which `group` is the name and a space.
void expect_command(const CLI::App& app, std::span<char*> words, const std::string& group = "") {
  const std::vector<const CLI::App*> known = app.get_subcommands({});
  if (known.empty()) return;
  std::vector<std::string> names;
  for (const CLI::App* command : known) names.push_back(group + command->get_name());
  const std::string first = words.empty() ? "" : words.front();
  expect_input(!first.empty(), "which command? one of {}", fmt::join(names, ", "));
  if (first.starts_with('-')) {
    expect_input(app.get_option_no_throw(first) != nullptr, "no option {}{}", first,
                 did_you_mean(first, {"--help", "--version"}));
    return;
  }
  const auto found = std::ranges::find(names, group + first);
  expect_input(found != names.end(), "no command {}{} ({})", group + first,
               did_you_mean(group + first, names), fmt::join(names, ", "));
  expect_command(*known[found - names.begin()], words.subspan(1), *found + " ");
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CLI::App app("Trains transformers, graph networks and autoencoders from one TOML file.",
               "tapestry");
  app.set_version_flag("--version", fmt::format("tapestry {}, {}", version(), machine()));
  app.require_subcommand(1);
  std::vector<std::unique_ptr<Command>> commands;
  CommandLine typed;
  for (const auto& [name, type] : command_registry()) {
    commands.push_back(type.make());
    CLI::App& place = declare(app, name, *commands.back());
    place.callback(
        [&typed, &commands, i = commands.size() - 1] { typed.command = std::move(commands[i]); });
  }
  try {
    expect_command(app, std::span(argv, argc).subspan(std::min(argc, 1)));
    app.parse(argc, argv);
    return typed;
  } catch (const CLI::CallForHelp&) {
    return {.text = typed_command(app).help()};
  } catch (const CLI::CallForVersion& version) {
    return {.text = fmt::format("{}\n", version.what())};
  } catch (const CLI::ExtrasError&) {
    throw InputError(advice(app, app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    throw InputError(one_line(error.what()) + "; --help lists what is expected");
  }
}

namespace {

// Of several processes that were launched together, the first speaks for all; the others wait until
// it has, for the launcher ends them all with the first that fails.
int failed(std::string_view message, int status) {
  if (launched_rank() == 0)
    complain(message);
  else
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return status;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond the limit on files says so
  if (launched_rank() > 0) keep_silent();
  try {
    const CommandLine typed = parse_command_line(argc, argv);
    print_lines(typed.text);
    const int status = typed.command ? typed.command->run() : 0;
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && !is_reader_gone())
      throw std::runtime_error("cannot write to the standard output");
    return status;
  } catch (const InputError& error) {
    return failed(error.what(), wrong_input_status);
  } catch (const OutOfMemory& error) {
    return failed(error.what(), failed_status);
  } catch (const std::bad_alloc&) {
    return failed("out of memory; give less data at a time, or a smaller model", failed_status);
  } catch (const std::system_error& error) {
    const bool lacks_thread = error.code() == std::errc::resource_unavailable_try_again;
    return failed(lacks_thread ? "no thread can be started; raise the limits of memory and of "
                                 "processes (ulimit -v, ulimit -u)"
                               : error.what(),
                  failed_status);
  } catch (const std::exception& error) {
    return failed(error.what(), failed_status);
  }
}

}  // namespace tapestry

int tapestry_main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
