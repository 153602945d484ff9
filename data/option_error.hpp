#pragma once

#include <string>
#include <utility>

#include "autograd/check.hpp"

namespace tapestry {

// The error for an option that does not fit the data. The message states the fact, and `option` is
// the name of the field, from which the caller finds the setting to name.
class OptionError final : public InputError {
 public:
  OptionError(std::string name, const std::string& fact)
      : InputError(fact), option(std::move(name)) {}

  std::string option;
};

// Throws OptionError for the named field unless the condition holds.
template <class... Args>
void expect_option(bool holds, const char* option, fmt::format_string<Args...> fact,
                   Args&&... args) {
  if (!holds) [[unlikely]]
    throw OptionError(option, fmt::format(fact, std::forward<Args>(args)...));
}

}  // namespace tapestry
