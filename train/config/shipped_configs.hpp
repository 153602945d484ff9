#pragma once

#include <map>
#include <string>

namespace tapestry {

// The configs in train/configs/, by name, as TOML text: they are built into the binary.
const std::map<std::string, std::string>& shipped_configs();

}  // namespace tapestry
