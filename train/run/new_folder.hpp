#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/atomic_file.hpp"

namespace tapestry {

// Throws InputError if the path exists, also as a broken link, or if its folder does not exist.
void expect_new_file(const std::string& path);

// A folder that is created with all its files or not at all: they are written into a folder with a
// name of new_temporary(PATH), which is renamed to PATH at the end.
class NewFolder final {
 public:
  // Throws InputError if PATH exists and is not an empty folder, or if the folder that is to
  // contain PATH does not exist, and FileError if the temporary folder cannot be created.
  explicit NewFolder(const std::string& path);
  ~NewFolder();  // removes the temporary folder unless finish() was called
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  // Writes a file into the temporary folder. Throws FileError if that fails.
  void write(const std::string& name, const std::vector<std::string_view>& parts);
  void finish();  // renames the folder to PATH; throws std::runtime_error if that fails

 private:
  std::string path_, aside_;
  std::optional<File> folder_;  // the temporary folder, which is locked
  std::vector<std::string> written_;
};

// A new temporary folder "tapestry-NAME-..." in TMPDIR (or /tmp), which the destructor removes with
// its contents. Throws InputError if it cannot be created.
class ScratchFolder final {
 public:
  explicit ScratchFolder(const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tapestry
