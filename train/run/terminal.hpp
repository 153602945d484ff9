#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Functions through which all output of the program is printed. Control characters in names, paths
// and prompts are shown as text. Files, such as those of --out, contain the text unchanged.
namespace tapestry {

class JsonValue;

// Prints to the standard output. A failure, such as of a closed terminal, does not end a training:
// run_command_line tests for it at the end.
void print_lines(std::string_view text);

// Makes print_lines() print to the standard error from now on, so that the standard output has only
// what print_json() prints.
void leave_output_to_json();

// Prints bytes unchanged to the standard output, or to a terminal as print_lines() does. Returns
// false if no one reads them.
bool print_bytes(std::string_view bytes);

void print_json(const JsonValue& object);  // prints a JSON object as a line of standard output

// Makes both print nothing from now on, for all ranks but one.
void keep_silent();

// Prints to the standard output, with the arguments of fmt::print.
template <class... Args>
void say(fmt::format_string<Args...> message, Args&&... args) {
  print_lines(fmt::format(message, std::forward<Args>(args)...));
}

// Prints "tapestry: …" to the standard error as one line.
void complain(std::string_view message);

// Sets how this program is called: its path, and words that stand before the command.
void set_own_program(const std::vector<std::string>& words);
// Returns the beginning of a command line of this program, for a shell: "tapestry", "build/mine" or
// "tapestry --plugin build/libmine.so".
const std::string& own_program();

void erase_line();  // erases the current line of a terminal

// Returns whether the standard output is a pipe whose reader has closed it, as `head` does.
bool is_reader_gone();

// Returns the number of columns of the terminal on the standard output, 80 if that is unknown; 0 if
// the output is not a terminal, cannot erase a line, or is left to JSON.
std::int64_t live_columns();
bool shows_blocks();  // returns whether the locale's environment variables select UTF-8

}  // namespace tapestry
