#pragma once

namespace tapestry {

// The processor's instructions that this library is compiled for: "x86-64-v4", "aarch64".
const char* instruction_level();

}  // namespace tapestry
