#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// Writes beside `path`, fsyncs and renames: whatever happens, `path` holds the old file or the
// new one, whole. Throws std::runtime_error when the disk is full or the folder not writable.
void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts);

}  // namespace tapestry
