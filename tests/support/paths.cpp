#include "tests/support/paths.hpp"

namespace tapestry::paths {

constinit const char* const source = TAPESTRY_SOURCE_DIR;
constinit const char* const build = TAPESTRY_BINARY_DIR;
constinit const char* const plugins = TAPESTRY_PLUGINS;
constinit const char* const program = TAPESTRY_BINARY;
constinit const char* const bench = TAPESTRY_BENCH;
constinit const char* const emulator = TAPESTRY_EMULATOR;

}  // namespace tapestry::paths
