#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>

namespace tapestry {

// The system calls by which files are written, as their manual pages have them: -1 and errno where
// one fails. The tests put others in their place, which fail, or forget what was never synced.
// `folder` is the descriptor of an open folder, which a relative path starts from, or AT_FDCWD.
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  virtual int openat(int folder, const char* path, int flags);
  virtual ssize_t write(int file, const void* bytes, std::size_t count);
  virtual int ftruncate(int file, off_t length);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int renameat(int folder, const char* from, const char* to);  // within the folder
  virtual int unlinkat(int folder, const char* path);
  virtual int mkdir(const char* path);
  virtual int rmdir(const char* path);

  int open(const char* path, int flags) { return openat(AT_FDCWD, path, flags); }
  int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, to); }
  int unlink(const char* path) { return unlinkat(AT_FDCWD, path); }
};

SystemCalls& system_calls();                   // the system's own, unless others were chosen
void choose_system_calls(SystemCalls* calls);  // null: the system's own

}  // namespace tapestry
