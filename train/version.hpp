#pragma once

#include <string>

namespace tapestry {

std::string version();  // "0.1.0 (commit 4e34a53)", of the commit it was built from, where known

// What computes: "x86-64-v4, oneDNN 3.7.2, OpenBLAS 0.3.29 (SkylakeX), 2 threads".
std::string machine();

}  // namespace tapestry
