#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tapestry {

// Returns the texts that CMake built into the library, by their names: a gzip file of `bytes`
// bytes, in which each text follows a line of its name and its length.
std::map<std::string, std::string> embedded_texts(std::string_view gzip, std::size_t bytes);

}  // namespace tapestry
