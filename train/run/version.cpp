#include "train/run/version.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <set>
#include <tapestry_commit.hpp>

#include "autograd/checksum.hpp"
#include "autograd/counted.hpp"
#include "autograd/engine.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "data/input_file.hpp"
#include "train/plugin.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

std::string library_path() {
  Dl_info library{};
  dladdr(reinterpret_cast<void*>(&library_checksum), &library);
  return library.dli_fname;
}

}  // namespace

std::string release() { return TAPESTRY_VERSION; }

std::string version() {
  const std::string commit = TAPESTRY_COMMIT;
  return release() + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string backends() { return fmt::format("{}, {}", instruction_level(), backend_names()); }

std::string library_checksum() {
  Checksum sum;
  std::set<std::string> files{engine_path(), library_path()};
  for (const auto& [name, spec] : task_registry())
    if (!spec.file.empty()) files.insert(spec.file);
  for (const Plugin& plugin : loaded_plugins()) files.insert(plugin.file);
  for (const std::string& file : files) {
    const std::string bytes = read_file(file, std::int64_t{1} << 30);
    sum.add(std::as_bytes(std::span(bytes)));
  }
  return sum.hex();
}

void require_engine_of_this_build() {
  const std::string engine = engine_commit(), library = TAPESTRY_COMMIT;
  if (engine != library)
    throw std::runtime_error(
        fmt::format("{} is of commit {}, but {} is of commit {}; install both from one build",
                    engine_path(), engine, library_path(), library));
}

std::string machine() {
  return fmt::format("{}, {}", backends(), counted(num_threads(), "thread"));
}

}  // namespace tapestry
