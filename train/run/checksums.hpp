#pragma once

#include <map>
#include <string>

#include "optim/optimizer.hpp"

namespace tapestry {

// XXH3 of tensors: by the names that checkpoints keep them under, 16 hexadecimal digits each.
using Checksums = std::map<std::string, std::string>;

Checksums checksums_of(const OptimizerState& tensors);  // threads share the work

// One of them all: XXH3 of the lines "name checksum", in the order of the names.
std::string combined(const Checksums& checksums);

}  // namespace tapestry
