#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Short names of all tests.
namespace tapestry {
namespace fs = std::filesystem;

using Json = nlohmann::json;  // an independent reader of the program's output
using Strings = std::vector<std::string>;
using Tokens = std::vector<std::int32_t>;

}  // namespace tapestry
