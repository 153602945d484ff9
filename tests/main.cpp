#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/engine.hpp"

namespace {

// Environment variables that tests keep: paths of programs, libraries and temporary files, settings
// of sanitizers and OpenBLAS, and parameters of tests.
bool is_kept(std::string_view name) {
  for (const char* kept : {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"})
    if (name == kept) return true;
  for (const char* beginning : {"TAPESTRY_", "OPENBLAS_", "ASAN_", "UBSAN_", "LSAN_", "TSAN_"})
    if (name.starts_with(beginning)) return true;
  return false;
}

// Gives this process, and the programs that tests start, the same environment on every machine.
void define_environment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names)
    if (!is_kept(name)) unsetenv(name.c_str());
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 0);
  setenv("TERM", "xterm", 1);
  setenv("LANG", "C.UTF-8", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
}

// Loads the tests that are compiled for the level of the engine, which add themselves to this
// library's.
void load_engine_tests() {
  const std::filesystem::path engine = tapestry::engine_path();
  if (!dlopen((engine.parent_path() / "libtapestry-tests-engine.so").c_str(), RTLD_NOW))
    throw std::runtime_error(dlerror());
}

}  // namespace

// The entry point that train/main.cpp calls.
extern "C" int tapestry_main(int argc, char** argv) {
  define_environment();
  load_engine_tests();
  return doctest::Context(argc, argv).run();
}
