#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// InputError where something of that name is there, a link that leads nowhere included, or no
// folder is that it could be made in.
void expect_new_file(const std::string& path);

// A folder that is there whole or not at all: its files are written into PATH.tmp, which takes the
// name PATH when all of them are there.
class NewFolder final {
 public:
  // InputError where PATH is there and not an empty folder, PATH.tmp is there, or nothing is that
  // it could be made in.
  explicit NewFolder(const std::string& path);
  ~NewFolder();  // takes away what was written, if it was not finished
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void write(const std::string& name, const std::vector<std::string_view>& parts);
  void finish();

 private:
  std::string path_, aside_;
  std::vector<std::string> written_;
};

// A new folder "tapestry-NAME-..." below TMPDIR (or /tmp), removed with what it holds when the
// object is destroyed. Throws InputError if none can be made there.
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
