#pragma once

#include <string>
#include <utility>

#include "autograd/check.hpp"

namespace tapestry {

// An option that does not suit the data. The message states the fact, and `option` is the field's
// name, so that whoever took its value from a setting of another name can name that one.
class OptionError final : public InputError {
 public:
  OptionError(std::string name, const std::string& fact)
      : InputError(fact), option(std::move(name)) {}

  std::string option;
};

// Throws OptionError: the value of this option is wrong.
template <class... Args>
void expect_option(bool holds, const char* option, fmt::format_string<Args...> fact,
                   Args&&... args) {
  if (!holds) [[unlikely]]
    throw OptionError(option, fmt::format(fact, std::forward<Args>(args)...));
}

}  // namespace tapestry
