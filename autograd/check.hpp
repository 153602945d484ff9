#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace tapestry {

// The error for wrong input of a user: the command line, a config, a data file. The message is one
// line that says where, what is wrong, what was expected and what to do. The exit status is 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws std::invalid_argument with the formatted message unless `holds`: a caller's mistake.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) [[unlikely]]
    throw std::invalid_argument(fmt::format(message, std::forward<Args>(args)...));
}

// Throws std::invalid_argument unless an argument has a value that the function takes: "rotary:
// base = 0; expected a number above 0".
template <class T>
void require_value(bool holds, const char* function, const char* name, const T& value,
                   const char* expected) {
  require(holds, "{}: {} = {}; expected {}", function, name, value, expected);
}

// Throws InputError with the formatted message unless `holds`: a mistake in the user's input.
template <class... Args>
void expect_input(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) [[unlikely]]
    throw InputError(fmt::format(message, std::forward<Args>(args)...));
}

// Throws std::logic_error after a switch that has a case for each value of `what`.
[[noreturn]] inline void throw_unhandled(const char* what) {
  throw std::logic_error(fmt::format("internal error: a value of {} is not handled", what));
}

}  // namespace tapestry
