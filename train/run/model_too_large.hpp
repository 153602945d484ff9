#pragma once

#include "autograd/check.hpp"

namespace tapestry {

// The error for a configured model that does not fit into memory.
class ModelTooLarge final : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace tapestry
