#pragma once

#include <string>

namespace tapestry {

std::string release();  // "0.1.0"
std::string version();  // "0.1.0 (commit 4e34a53)", of the commit it was built from, where known

// Returns what the bits of a training depend on besides its config and data: instruction level and
// matrix kernels, as "x86-64-v4, 14x32 tiles, oneDNN 3.7.2 (AMX)". Files of a run call it
// "engines".
std::string backends();

std::string
library_checksum();  // returns the checksum of the library's file, which differs between builds

std::string machine();  // backends() and the number of threads

}  // namespace tapestry
