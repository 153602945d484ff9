#include "train/run/version.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <commit.hpp>

#include "autograd/checksum.hpp"
#include "autograd/cores.hpp"
#include "autograd/counted.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "data/input_file.hpp"

namespace tapestry {

std::string release() { return TAPESTRY_VERSION; }

std::string version() {
  const std::string commit = TAPESTRY_COMMIT;
  return release() + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string backends() { return fmt::format("{}, {}", instruction_level(), backend_names()); }

std::string library_checksum() {
  Dl_info library{};
  dladdr(reinterpret_cast<void*>(&library_checksum), &library);
  const std::string bytes = read_file(library.dli_fname, std::int64_t{1} << 30);
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  return sum.hex();
}

std::string machine() {
  return fmt::format("{}, {}", backends(), counted(num_threads(), "thread"));
}

}  // namespace tapestry
