#pragma once

#include <string>

#include "data/option_error.hpp"

namespace tapestry {

// Returns the name of the option that decides how read() reads its data, or "" if it is decided.
std::string asked(const auto& read) {
  try {
    read();
  } catch (const OptionError& error) {
    return error.option;
  }
  return "";
}

}  // namespace tapestry
