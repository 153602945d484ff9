#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>
#ifdef __x86_64__
#define _Bool bool  // glibc's header is C, which Clang takes at its word
#include <sys/platform/x86.h>
#undef _Bool
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

// The program runs on any processor: it loads the engine of an instruction level, then the library,
// which needs one, and calls tapestry_main, which train/commands/command_line.hpp declares. (glibc
// would choose among the same folders, but before main(), without TAPESTRY_LEVEL or a message.)
namespace {

constexpr int failed_status = 1, wrong_input_status = 2;

// An instruction level of x86-64 (System V ABI, section 3.1.1), or the only one elsewhere.
struct Level {
  std::string name;       // value of TAPESTRY_LEVEL
  std::string folder;     // folder of its engine in TAPESTRY_LIBRARY_FOLDER
  bool supported = true;  // supported by this processor and system
};

#ifdef __x86_64__
bool supports_v2() {
  return CPU_FEATURE_ACTIVE(CMPXCHG16B) && CPU_FEATURE_ACTIVE(LAHF64_SAHF64) &&
         CPU_FEATURE_ACTIVE(POPCNT) && CPU_FEATURE_ACTIVE(SSE3) && CPU_FEATURE_ACTIVE(SSSE3) &&
         CPU_FEATURE_ACTIVE(SSE4_1) && CPU_FEATURE_ACTIVE(SSE4_2);
}

bool supports_v3() {
  return supports_v2() && CPU_FEATURE_ACTIVE(AVX) && CPU_FEATURE_ACTIVE(AVX2) &&
         CPU_FEATURE_ACTIVE(BMI1) && CPU_FEATURE_ACTIVE(BMI2) && CPU_FEATURE_ACTIVE(F16C) &&
         CPU_FEATURE_ACTIVE(FMA) && CPU_FEATURE_ACTIVE(LZCNT) && CPU_FEATURE_ACTIVE(MOVBE);
}

bool supports_v4() {
  return supports_v3() && CPU_FEATURE_ACTIVE(AVX512F) && CPU_FEATURE_ACTIVE(AVX512BW) &&
         CPU_FEATURE_ACTIVE(AVX512CD) && CPU_FEATURE_ACTIVE(AVX512DQ) &&
         CPU_FEATURE_ACTIVE(AVX512VL);
}
#endif

// Returns all levels, in descending order.
std::vector<Level> known_levels() {
#ifdef __x86_64__
  return {{"v4", "glibc-hwcaps/x86-64-v4/", supports_v4()},
          {"v3", "glibc-hwcaps/x86-64-v3/", supports_v3()},
          {"v2", "glibc-hwcaps/x86-64-v2/", supports_v2()}};
#else
  return {{TAPESTRY_PROCESSOR, ""}};
#endif
}

constexpr const char* engine_name = "libtapestry-engine.so.0";

// Returns the path of this program; in a container without /proc, from the path that it was started
// with. Throws std::runtime_error if neither is known.
std::filesystem::path program_path() {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    program =
        std::filesystem::canonical(reinterpret_cast<const char*>(getauxval(AT_EXECFN)), error);
  if (error)
    throw std::runtime_error("/proc/self/exe: cannot be read: " + error.message() +
                             "; mount /proc, where the program finds its libraries");
  return program;
}

// Returns the path of a file in TAPESTRY_LIBRARY_FOLDER.
std::string library_path(const std::string& name) {
  return program_path().parent_path() / (TAPESTRY_LIBRARY_FOLDER "/" + name);
}

std::string engine_of(const Level& level) { return library_path(level.folder + engine_name); }

bool is_built(const Level& level) { return std::filesystem::exists(engine_of(level)); }

bool is_supported(const Level& level) { return level.supported; }

std::string names_of(const std::vector<Level>& levels, bool (*wanted)(const Level&)) {
  std::string names;
  for (const Level& level : levels)
    if (wanted(level)) names += (names.empty() ? "" : ", ") + level.name;
  return names.empty() ? "none" : names;
}

// Returns the level that TAPESTRY_LEVEL names, as "v3" or "x86-64-v3", or else the best one that is
// built and supported. Throws std::invalid_argument if the named level is unknown, not built or not
// supported, or if there is no such level.
Level chosen_level() {
  const std::vector<Level> levels = known_levels();
  const char* variable = std::getenv("TAPESTRY_LEVEL");
  std::string wanted = variable ? variable : "";
  std::string asked = "TAPESTRY_LEVEL=" + wanted.substr(0, 40);
  std::ranges::replace_if(
      asked, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (wanted.starts_with("x86-64-")) wanted.erase(0, 7);
  for (const Level& level : levels) {
    if (wanted.empty() ? !is_supported(level) || !is_built(level) : level.name != wanted) continue;
    if (!is_supported(level))
      throw std::invalid_argument(
          asked + ": this processor lacks the instructions of this level; expected one of " +
          names_of(levels, is_supported));
    if (!is_built(level))
      throw std::invalid_argument(asked + ": not built; expected one of " +
                                  names_of(levels, is_built));
    return level;
  }
  if (!wanted.empty())
    throw std::invalid_argument(asked + ": unknown level; expected one of " +
                                names_of(levels, [](const Level&) { return true; }));
  const std::string supported = names_of(levels, is_supported);
  throw std::invalid_argument(
      supported == "none"
          ? "this processor lacks SSE4.2, which the lowest level (x86-64-v2) needs; use another one"
          : "no level of this processor (" + supported + ") is built (" +
                names_of(levels, is_built) + "); build Tapestry on this machine, or all " +
                "levels with cmake --preset package");
}

// Opens closed standard streams, so that the next opened file does not get their number and the
// program's output. Using them still fails, as it does for a closed stream.
void take_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)
      // open() returns the smallest unused number.
      open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Loads a library and returns its handle. Throws std::runtime_error.
void* load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

// Throws std::runtime_error if this process has loaded another engine, which the library would get.
void require_no_engine_but(const std::string& path) {
  void* engine = dlopen(engine_name, RTLD_NOW | RTLD_NOLOAD);
  if (!engine) return;
  link_map* loaded = nullptr;
  std::error_code error;
  if (dlinfo(engine, RTLD_DI_LINKMAP, &loaded) == 0 &&
      !std::filesystem::equivalent(loaded->l_name, path, error))
    throw std::runtime_error(std::string(loaded->l_name) +
                             ": this engine is loaded already; expected " + path +
                             "; remove the other from LD_PRELOAD");
}

}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// Suppresses the report of what Clang's OpenMP and fontconfig, which cairo loads, do not free.
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp\nleak:libfontconfig\n"; }
#endif
#endif

int main(int argc, char** argv) try {
  take_closed_streams();
  const std::string engine = engine_of(chosen_level());
  require_no_engine_but(engine);
  load(engine);
  void* entry = dlsym(load(library_path(TAPESTRY_LIBRARY)), "tapestry_main");
  if (!entry) throw std::runtime_error(dlerror());
  return reinterpret_cast<int (*)(int, char**)>(entry)(argc, argv);
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "tapestry: %s\n", error.what());
  return wrong_input_status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tapestry: %s\n", error.what());
  return failed_status;
}
