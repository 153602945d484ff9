#pragma once

#include <string>
#include <vector>

namespace tapestry {

// A config as it is written.
struct ConfigText {
  std::string source;    // the name that errors give it: a file's path, or a shipped config's name
  std::string text;      // TOML
  bool is_file = false;  // `source` is its path
};

// What stands at the top of a config that starts from another one: base = "…".
inline constexpr const char* base_key = "base";

// CONFIG of the command line: a file, or else a shipped config. InputError names the nearest one.
ConfigText read_config(const std::string& path_or_name);

// The text, its base, its base's base and so on. A base is a path, relative to the folder of the
// file that names it, or else the name of a shipped config. All of its values hold that the text
// does not set, but its name and [expected]: a published result is of that very config.
// InputError where there is no base of that name, and where bases go round in a circle.
std::vector<ConfigText> with_bases(ConfigText text);

}  // namespace tapestry
