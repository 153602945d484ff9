#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tapestry {

// The system calls by which files are written, as their manual pages have them: -1 and errno where
// one fails. The tests put others in their place, which fail, or forget what was never synced.
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  virtual int open(const char* path, int flags);
  virtual ssize_t write(int file, const void* bytes, std::size_t count);
  virtual int ftruncate(int file, off_t length);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path);
  virtual int rmdir(const char* path);
};

SystemCalls& system_calls();                   // the system's own, unless others were chosen
void choose_system_calls(SystemCalls* calls);  // null: the system's own

}  // namespace tapestry
