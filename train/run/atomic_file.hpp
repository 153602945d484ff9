#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
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
  virtual int openat(int folder, const char* path, int flags) {
    return ::openat(folder, path, flags | O_CLOEXEC, 0666);
  }
  virtual ssize_t write(int file, const void* bytes, std::size_t count) {
    return ::write(file, bytes, count);
  }
  virtual int ftruncate(int file, off_t length) { return ::ftruncate(file, length); }
  virtual int fsync(int file) { return ::fsync(file); }
  virtual int flock(int file, int operation) { return ::flock(file, operation); }
  virtual int close(int file) { return ::close(file); }
  // Rename a file, and make a hard link, within the folder.
  virtual int renameat(int folder, const char* from, const char* to) {
    return ::renameat(folder, from, folder, to);
  }
  virtual int linkat(int folder, const char* from, const char* to) {
    return ::linkat(folder, from, folder, to, 0);
  }
  virtual int unlinkat(int folder, const char* path) { return ::unlinkat(folder, path, 0); }
  virtual int mkdir(const char* path) { return ::mkdir(path, 0777); }
  virtual int rmdir(const char* path) { return ::rmdir(path); }
};

SystemCalls& system_calls();  // returns the calls of the system, unless others were set
void choose_system_calls(SystemCalls* calls);  // restores the system's calls if null

// The error of a failed system call: no space, no permission, no such folder.
class FileError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A name in an open folder, which remains valid if the folder is moved. A link of this name is not
// followed.
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
  // Throws as expect_no_link() does.
  File(const FilePlace& place, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes);
  void truncate(std::int64_t bytes);
  void sync();   // returns when the bytes are on disk
  void close();  // the destructor closes as well, but ignores errors

  int descriptor() const { return descriptor_; }
  bool is_at(const FilePlace& place) const;  // returns whether the name still is that of this file

 private:
  std::string path_;
  int descriptor_;
};

// Outcome of try_lock().
enum class Locked { yes, by_another, unsupported };

// Locks an open file or folder until it is closed or the process ends, by flock() with LOCK_EX or
// LOCK_SH. errno tells why the file system does not support locks.
Locked try_lock(int descriptor, int kind);

// Throws InputError if the path is a link: a file of a run that leads to another folder.
void expect_no_link(const std::string& path);

// Ending of a file's name while it is written.
inline constexpr const char* unfinished_ending = ".tmp";

// Returns an unused name in the folder of `path`, ".NAME.PROCESS-NUMBER.tmp", under which a file or
// folder is written. Whoever writes it holds its lock. Removes those of killed processes, whose
// locks are free.
std::string new_temporary(const std::string& path);

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

// Creates a folder in an existing one. Returns false if it exists already. Throws FileError, with
// the folder as `shown` or else by its path, if that fails.
bool make_folder(const std::string& path, const std::string& shown = "");

// Return the folder of a path, "." if the path names none, and the file name.
std::string folder_of(const std::string& path);
std::string file_name_of(const std::string& path);

// Sync the names of files in a folder to disk, unless the file system cannot sync a folder. Throw
// FileError, with the folder as `shown`, if that fails.
void sync_folder(const std::string& folder, const std::string& shown);
void sync_folder_of(const FilePlace& place);

}  // namespace tapestry
