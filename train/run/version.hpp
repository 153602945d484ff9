#pragma once

#include <string>

namespace tapestry {

std::string release();  // returns "0.1.0"
std::string version();  // adds the commit of the build, if known: "0.1.0 (commit 4e34a53)"

// Returns the properties of the program and processor that the bits of a training depend on,
// instruction level and matrix kernels: "x86-64-v4, 14x32 tiles, bfloat16 by AMX". Files of a
// run call them "engines".
std::string backends();

// Returns the checksum of the files of the engine, the library, and a program or plug-ins that
// register tasks, which differs between builds.
std::string library_checksum();

// Throws std::runtime_error if the engine is of another commit than this library: their types may
// differ.
void require_engine_of_this_build();

std::string machine();  // returns backends() and the number of threads

}  // namespace tapestry
