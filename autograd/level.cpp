#include "autograd/level.hpp"

namespace tapestry {

const char* instruction_level() { return TAPESTRY_LEVEL; }

}  // namespace tapestry
