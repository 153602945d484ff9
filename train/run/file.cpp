#include "train/run/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tapestry {
namespace {

// A file descriptor that closes itself and whose errors are exceptions.
class File {
 public:
  // Errors name the file as `shown`.
  File(const std::string& path, int flags, const std::string& shown)
      : path_(shown), descriptor_(::open(path.c_str(), flags, 0666)) {
    if (descriptor_ < 0) fail("cannot open");
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write");
      bytes.remove_prefix(written);
    }
  }

  void sync() {
    if (::fsync(descriptor_) != 0) fail("cannot sync");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(fmt::format("{}: {}: {}", path_, what, std::strerror(errno)));
  }

  std::string path_;
  int descriptor_;
};

}  // namespace

void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts) {
  const std::string temporary = path + ".tmp";
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, path);
    for (std::string_view part : parts) file.write(part);
    file.sync();
    std::filesystem::rename(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const auto folder = std::filesystem::absolute(path).parent_path();
  File(folder.string(), O_RDONLY | O_DIRECTORY, path).sync();  // the new name as well
}

}  // namespace tapestry
