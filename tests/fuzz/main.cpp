#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

// The program of libFuzzer: tapestry-fuzz TARGET [libFuzzer's options and folders of inputs].
namespace {

constexpr const char* variable = "TAPESTRY_FUZZ_TARGET";  // child processes of libFuzzer read it
const tapestry::FuzzTarget* chosen = nullptr;

void choose(const char* name) {
  const auto found = tapestry::fuzz_targets().find(name);
  if (found != tapestry::fuzz_targets().end()) {
    chosen = &found->second;
    return;
  }
  std::fprintf(stderr, "tapestry-fuzz TARGET [OPTION...] [FOLDER...], with TARGET one of:\n");
  for (const auto& [known, target] : tapestry::fuzz_targets())
    std::fprintf(stderr, "  %s\n", known.c_str());
  std::exit(2);
}

}  // namespace

// Limits the freed memory that the sanitizer keeps, which counts as used.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (const char* given = std::getenv(variable)) {
    choose(given);
    return 0;
  }
  choose(*argc > 1 ? (*argv)[1] : "");
  setenv(variable, (*argv)[1], 1);
  (*argv)[1] = (*argv)[0];  // the name is removed
  ++*argv;
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tapestry::feed(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
