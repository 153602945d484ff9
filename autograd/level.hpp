#pragma once

#include <string>

namespace tapestry {

// Returns the instruction level that this library is compiled for: "x86-64-v4", "aarch64".
const char* instruction_level();

// Returns the path of a plug-in library: for "openmpi", lib/tapestry/openmpi.so. It need not exist.
std::string plugin_path(const std::string& name);

}  // namespace tapestry
