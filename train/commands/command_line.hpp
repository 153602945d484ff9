#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/commands/command.hpp"

// Reads the command line, runs the command, and turns exceptions into one line and a status:
// 0 done, 1 failed while running, 2 wrong input, 130 interrupted.
namespace tapestry {
// Runs the command line of a program, which may be one's own: int main(int c, char** v) { return
// tapestry::run_command_line(c, v); }. Returns the status. Ignores SIGXFSZ; a training handles
// signals as train/trainer/training.hpp says.
int run_command_line(int argc, char** argv);

// A parsed command line: a command with its arguments, or a text to print (help or the version)
// with the program's status.
struct CommandLine {
  std::unique_ptr<Command> command{};
  std::string text{};
  int status = 0;
};
// Parses a command line, without loading plug-ins. Throws InputError for an unknown command or
// option, and for an invalid value.
CommandLine parse_command_line(int argc, char** argv);

// A plug-in that stands before the command: --plugin FILE, or --rebuilt-plugin FILE.
struct GivenPlugin {
  std::string file{};
  bool is_rebuilt = false;

  const char* option() const { return is_rebuilt ? "--rebuilt-plugin" : "--plugin"; }
};
// Removes these options from the beginning of the words, and returns them.
std::vector<GivenPlugin> take_plugins(std::span<char*>& words);

// An option or argument of a command, for the manual page.
struct OptionDescription {
  std::string name{}, help{};  // "--threads"; of a positional one "RUN"
  bool positional = false, required = false, repeated = false, flag = false;
};
struct CommandDescription {
  std::string help{};
  std::vector<OptionDescription> options{};  // "--help" is among them
};
// Returns the description of a command. Throws std::out_of_range if there is none of this name.
CommandDescription describe_command(const std::string& name);
}  // namespace tapestry

// Runs a command line. train/main.cpp looks up this name in the library that it loads.
extern "C" int tapestry_main(int argc, char** argv);
