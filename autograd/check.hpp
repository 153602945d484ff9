#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace tapestry {

// Something the user gave is wrong: the command line, a config, a data file. The message is one
// line that says where, what was expected and what to do. The program ends with status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws std::invalid_argument: a caller broke a function's contract.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) [[unlikely]]
    throw std::invalid_argument(fmt::format(message, std::forward<Args>(args)...));
}

// Throws InputError: the user's input is wrong.
template <class... Args>
void expect_input(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) [[unlikely]]
    throw InputError(fmt::format(message, std::forward<Args>(args)...));
}

// After a switch with a case for each value: this one has none, of which the compiler warned.
[[noreturn]] inline void throw_unhandled(const char* what) {
  throw std::logic_error(fmt::format("{}: one of its values is not handled", what));
}

}  // namespace tapestry
