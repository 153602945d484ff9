#pragma once

#include <string>

// The engine is autograd/ and optim/: a library for each instruction level, of which a process
// loads one. layers/, data/ and train/ are a library that is compiled once.
namespace tapestry {

// Returns the instruction level that the engine is compiled for: "x86-64-v4", "aarch64".
const char* instruction_level();

// Returns the commit of the engine, as git describes it; empty if git does not know it.
const char* engine_commit();

// Returns the name of the engine's symbol of build_symbol.hpp.
const char* build_symbol();

// Returns the path of the engine's library, which depends on how it was loaded.
std::string engine_path();

// Returns the path of a plug-in library: for "openmpi", lib/tapestry/openmpi.so. The file need not
// exist.
std::string plugin_path(const std::string& name);

}  // namespace tapestry
