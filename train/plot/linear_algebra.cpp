#include "train/plot/linear_algebra.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

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
  static constexpr LinearAlgebra without_plugin{.eigenvectors = jacobi_eigenvectors};
  const std::string path = plugin_path(linear_algebra_plugin);
  if (!std::filesystem::exists(path)) return &without_plugin;
  require_address_space();
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

// A rotation by an angle with this cosine and sine.
struct Rotation {
  double cosine, sine;

  // Rotates the elements of two rows or columns, which are `stride` apart.
  void apply(double* x, double* y, std::int64_t n, std::int64_t stride) const {
    for (std::int64_t i = 0; i < n; ++i, x += stride, y += stride) {
      const double old = *x;
      *x = cosine * old - sine * *y;
      *y = sine * old + cosine * *y;
    }
  }
};

// Returns the rotation by the smaller angle that makes element (p, q) zero.
Rotation rotation_of(const double* a, std::int64_t n, std::int64_t p, std::int64_t q) {
  const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
  const double tangent = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double cosine = 1 / std::sqrt(tangent * tangent + 1);
  return {.cosine = cosine, .sine = tangent * cosine};
}

}  // namespace

void jacobi_eigenvectors(const double* matrix, std::int64_t n, double* values, double* vectors) {
  constexpr int most_sweeps = 60;  // about 8 are needed
  constexpr std::int64_t most_dimensions = 256;
  if (n > most_dimensions)
    throw std::runtime_error(fmt::format(
        "principal components of {} dimensions need OpenBLAS, which this package of Tapestry "
        "lacks; expected at most {}; use the Debian package, or build Tapestry",
        n, most_dimensions));
  std::vector<double> a(matrix, matrix + n * n), axes(n * n);
  for (std::int64_t i = 0; i < n; ++i) axes[i * n + i] = 1;
  double squares = 0;
  for (const double element : a) squares += element * element;
  const double negligible = 1e-17 * std::sqrt(squares);
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < most_sweeps; ++sweep) {
    rotated = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p * n + q]) <= negligible) continue;
        rotated = true;
        const Rotation rotation = rotation_of(a.data(), n, p, q);
        rotation.apply(&a[p], &a[q], n, n);
        rotation.apply(&a[p * n], &a[q * n], n, 1);
        rotation.apply(&axes[p * n], &axes[q * n], n, 1);
      }
  }
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return a[i * n + i]; });
  for (const std::int64_t i : order) {
    *values++ = a[i * n + i];
    vectors = std::copy_n(&axes[i * n], n, vectors);
  }
}

const LinearAlgebra& linear_algebra() {
  static const LinearAlgebra* loaded = load();
  return *loaded;
}

}  // namespace tapestry
