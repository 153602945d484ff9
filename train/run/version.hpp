#pragma once

#include <string>

namespace tapestry {

std::string release();  // "0.1.0"
std::string version();  // "0.1.0 (commit 4e34a53)", of the commit it was built from, where known

// What a training's bits depend on beside its config and data: instruction level and engines, as
// "x86-64-v4, oneDNN 3.7.2 (AMX), OpenBLAS 0.3.29 (SkylakeX)".
std::string engines();

std::string machine();  // engines() and the number of threads

}  // namespace tapestry
