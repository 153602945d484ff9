#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

// All that the program prints goes through here. Names in data, paths and prompts may hold what a
// terminal obeys: it is shown as text. Files, those of --out too, keep what they are given.
namespace tapestry {

// To the standard output. What cannot be shown, as on a terminal that was closed, ends no training:
// run_command_line looks for it when all is done.
void print_lines(std::string_view text);

// From here on print_lines() prints nothing: one of several processes speaks for all.
void keep_silent();

// To the standard output, as fmt::print does.
template <class... Args>
void say(fmt::format_string<Args...> message, Args&&... args) {
  print_lines(fmt::format(message, std::forward<Args>(args)...));
}

// "tapestry: …" to the standard error, one line whatever the message holds.
void complain(std::string_view message);

void erase_line();  // erases the current line of a terminal

// Returns whether the standard output is a pipe whose reader has closed it, as `head` does.
bool is_reader_gone();

// The columns of the terminal that the standard output is; 0 where it is none, or cannot erase.
std::int64_t live_columns();
bool shows_blocks();  // returns whether the locale's environment variables select UTF-8

}  // namespace tapestry
