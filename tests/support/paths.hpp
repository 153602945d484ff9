#pragma once

#include <string>

// Absolute paths of the source tree and the build. Only paths.cpp is compiled with them, so that
// other objects are the same in each clone. They are initialized before any code runs: labels of
// tests may use them.
namespace tapestry::paths {

extern const char* const source;    // the source tree
extern const char* const build;     // the build folder
extern const char* const plugins;   // the folder of the built plug-ins
extern const char* const program;   // tapestry
extern const char* const bench;     // tapestry-bench
extern const char* const emulator;  // the command that runs programs of another processor, or ""

}  // namespace tapestry::paths

namespace tapestry {

// Returns the path of a file of the source tree.
inline std::string source_path(const std::string& name) {
  return std::string(paths::source) + "/" + name;
}
inline std::string golden_path(const std::string& name) {
  return source_path("tests/golden/" + name);
}

}  // namespace tapestry
