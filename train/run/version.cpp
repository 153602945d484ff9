#include "train/run/version.hpp"

#include <fmt/core.h>

#include <commit.hpp>

#include "autograd/kernels/matmul.hpp"
#include "autograd/level.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

std::string release() { return TAPESTRY_VERSION; }

std::string version() {
  const std::string commit = TAPESTRY_COMMIT;
  return release() + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string engines() { return fmt::format("{}, {}", instruction_level(), matrix_engine_names()); }

std::string machine() {
  return fmt::format("{}, {} thread{}", engines(), num_threads(), num_threads() == 1 ? "" : "s");
}

}  // namespace tapestry
