#include "train/distributed/launch.hpp"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "autograd/check.hpp"
#include "autograd/engine.hpp"

namespace tapestry {
namespace {

std::optional<int> number(const char* variable) {
  const char* text = std::getenv(variable);
  int value = 0;
  if (!text) return std::nullopt;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc() && rest == end && value >= 0 ? std::optional(value) : std::nullopt;
}

// The environment variables of one launcher. srun sets no other variable for the number of
// processes.
struct Variables {
  const char *rank, *size, *mpi;
};
constexpr Variables known[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "openmpi"},
                               {"PMIX_RANK", "SLURM_NTASKS", "openmpi"},
                               {"PMI_RANK", "PMI_SIZE", "mpich"}};

}  // namespace

Launch read_launch() {
  for (const auto& [rank, size, mpi] : known) {
    const std::optional<int> own = number(rank), all = number(size);
    if (own && all && *own < *all) return {*own, *all, mpi};
  }
  return {};
}

OpenTransport* load_transport(const Launch& launch) {
  const std::string name = launch.mpi, path = plugin_path(name);
  expect_input(
      std::filesystem::exists(path),
      "{} processes were launched together, but {}, the plug-in for their MPI, does not exist; "
      "install lib{}-dev and build again, or install tapestry-{}",
      launch.size, path, name, name);
  // Global, because MPI loads plug-ins of its own that use its symbols.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* failure = library ? nullptr : dlerror();
  expect_input(library != nullptr,
               "{}: cannot be loaded: {}; install the MPI implementation {}, and Tapestry again",
               path, failure ? failure : "", name);
  auto* open = reinterpret_cast<OpenTransport*>(dlsym(library, open_transport_name));
  expect_input(open != nullptr, "{}: not a plug-in of Tapestry; install Tapestry again", path);
  return open;
}

}  // namespace tapestry
