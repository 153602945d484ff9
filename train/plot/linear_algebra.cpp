#include "train/plot/linear_algebra.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "autograd/engine.hpp"

namespace tapestry {
namespace {

// A guard that sets an environment variable, and restores the earlier value at the end.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* usual = std::getenv(name)) usual_ = usual;
    setenv(name, value, 1);
  }
  ~EnvironmentVariable() { usual_ ? setenv(name_, usual_->c_str(), 1) : unsetenv(name_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> usual_;
};

// Returns the name of OpenBLAS's kernels for the instruction level of this library, or those that
// the user requests; null to let OpenBLAS choose.
const char* kernels() {
  const std::string level = instruction_level();
  if (const char* named = std::getenv("OPENBLAS_CORETYPE")) return named;
  if (level == "x86-64-v4") return "SkylakeX";
  if (level == "x86-64-v3") return "Haswell";
  return level == "x86-64-v2" ? "Nehalem" : nullptr;
}

// The size of the library and two buffers of 128 MiB: one allocated at the start and one during a
// computation.
constexpr std::size_t needed = std::size_t{336} << 20;

// Throws std::runtime_error if there is too little address space, because OpenBLAS then requests it
// in an endless loop.
void require_address_space() {
  void* space = mmap(nullptr, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED)
    throw std::runtime_error(
        fmt::format("OpenBLAS, which computes principal components, needs {} MB of address space, "
                    "which is not available; raise the limit (ulimit -v), or free memory",
                    needed / 1000000));
  munmap(space, needed);
}

const LinearAlgebra* load() {
  require_address_space();
  const std::string path = plugin_path(linear_algebra_plugin);
  std::optional<EnvironmentVariable> core;
  if (const char* name = kernels()) core.emplace("OPENBLAS_CORETYPE", std::string(name).c_str());
  // Each thread would allocate a buffer.
  const EnvironmentVariable one_thread("OMP_NUM_THREADS", "1");
  void* library = dlopen(path.c_str(), RTLD_NOW);
  const void* functions = library ? dlsym(library, linear_algebra_name) : nullptr;
  if (!functions) {
    const char* failure = dlerror();
    throw std::runtime_error(fmt::format("{}: cannot be loaded: {}; install Tapestry again", path,
                                         failure ? failure : "not a plug-in"));
  }
  return static_cast<const LinearAlgebra*>(functions);
}

}  // namespace

const LinearAlgebra& linear_algebra() {
  static const LinearAlgebra* loaded = load();
  return *loaded;
}

}  // namespace tapestry
