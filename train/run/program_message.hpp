#pragma once

#include <string>

#include "autograd/check.hpp"

namespace tapestry {

// Returns a message in the terms of a program that calls the library: settings without options of
// the command line, and "data in memory, NAME" in place of "/memory/NAME"; without an end of line.
std::string message_for_program(std::string message);

// Returns what `body` returns. The InputErrors that it throws get messages for programs.
template <class Body>
decltype(auto) for_program(const Body& body) try {
  return body();
} catch (const InputError& error) {
  throw InputError(message_for_program(error.what()));
}

}  // namespace tapestry
