#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autograd/check.hpp"

// Plug-ins: shared libraries of a user that register tasks or optimizers. Only --plugin of the
// command line loads them.
namespace tapestry {

struct Plugin {
  std::string name{}, file{};             // "mine" of libmine.so, and the absolute path
  std::string checksum{};                 // XXH3 of the file, 16 hexadecimal digits
  bool is_rebuilt = false;                // also stands for builds with other checksums
  std::vector<std::string> optimizers{};  // that it registered
};

// Loads a plug-in, before the first use of a registry. Throws InputError if the file cannot be read
// or loaded, if its name has other characters than letters, digits, '_' and '-' or is that of a
// loaded one, and, before any code of it runs, if it was compiled with the headers of another build
// of Tapestry or libstdc++ (autograd/build_symbol.hpp). The code of a plug-in can do what the user
// can do, and a file that is replaced while it is loaded is not noticed.
void load_plugin(const std::string& file, bool is_rebuilt = false);
const std::vector<Plugin>& loaded_plugins();

// The error for a config whose task or plug-in this program has not loaded.
class NotLoaded final : public InputError {
 public:
  using InputError::InputError;
};

// Throws NotLoaded, which begins with `origin`, unless the plug-ins that a config requires are
// loaded: "mine", "mine, 0123456789abcdef" with a checksum, or several of these separated by ';'.
// Throws InputError for another text.
void expect_plugins(const std::string& required, const std::string& origin);
// Returns whether such a text names the plug-in.
bool requires_plugin(std::string_view required, const Plugin& plugin);

// Returns the file of the program or library that contains a function, or "" if Tapestry's library
// does.
std::string file_with(const void* function);

}  // namespace tapestry
