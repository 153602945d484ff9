#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Functions that write all files of the program. Errors are FileError, in one line:
// "runs/sort/config.toml: cannot write: No space left on device; check the disk and permissions".
namespace tapestry {

// The system calls that write files, with the results that their manual pages describe. Tests
// replace them by calls that fail, or that discard what was never synced. `folder` is the
// descriptor of the folder in which a relative path begins, or AT_FDCWD.
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  virtual int openat(int folder, const char* path, int flags);
  virtual ssize_t write(int file, const void* bytes, std::size_t count);
  virtual int ftruncate(int file, off_t length);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int renameat(int folder, const char* from, const char* to);  // within the folder
  virtual int linkat(int folder, const char* from,
                     const char* to);  // a hard link, within the folder
  virtual int unlinkat(int folder, const char* path);
  virtual int mkdir(const char* path);
  virtual int rmdir(const char* path);

  int open(const char* path, int flags) { return openat(AT_FDCWD, path, flags); }
  int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, to); }
  int unlink(const char* path) { return unlinkat(AT_FDCWD, path); }
};

SystemCalls& system_calls();  // returns the calls of the system, unless others were set
void choose_system_calls(SystemCalls* calls);  // restores the system's calls if null

// The error of a failed system call: no space, no permission, no such folder.
class FileError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A name in an open folder, which remains valid if the folder is moved.
struct FilePlace {
  int folder;  // descriptor of the folder
  std::string name;
  std::string path;  // path of the file in messages
};

// A file that is open for writing. All functions but the destructor throw FileError if the system's
// call fails.
class File {
 public:
  // `flags` are those of open(2). Errors name the file as `shown`, or else by its path.
  File(const std::string& path, int flags, const std::string& shown = "");
  File(const FilePlace& place, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes);
  void truncate(std::int64_t bytes);
  void sync();   // returns when the bytes are on disk
  void close();  // the destructor closes as well, but ignores errors

 private:
  std::string path_;
  int descriptor_;
};

// Ending of a file's name while it is written.
inline constexpr const char* unfinished_ending = ".tmp";

// Write a temporary file in the folder of `path`, sync it and rename it: at any time, `path` is
// either the whole old file or the whole new one. Throw FileError if that fails.
void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts);
void write_file_atomically(const FilePlace& place, const std::vector<std::string_view>& parts);

// Writes a file in the same way without holding it in memory: `write` writes its parts in order.
// Throws FileError, and whatever `write` throws.
void stream_file_atomically(const std::string& path, const std::function<void(File&)>& write);

// Removes the temporary file of a process that was killed while it wrote this file. Throws
// FileError if that fails.
void remove_unfinished(const FilePlace& place);

// Creates a folder in an existing one. Returns false if it exists already. Throws FileError if that
// fails.
bool make_folder(const std::string& path);

// Return the folder of a path, "." if the path names none, and the file name.
std::string folder_of(const std::string& path);
std::string file_name_of(const std::string& path);

// Sync the names of files in a folder to disk. Throw FileError, with the folder as `shown`, if that
// fails.
void sync_folder(const std::string& folder, const std::string& shown);
void sync_folder_of(const FilePlace& place);

}  // namespace tapestry
