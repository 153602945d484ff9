#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tapestry {

// The folders of the control groups that this process is in, with those above each, that have a
// say in what a controller ("cpu", "memory") grants; of both versions of the kernel's interface.
// `root` is where the file system begins. Inside a container the names may be the host's, of which
// only the outermost folder is there.
std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

}  // namespace tapestry
