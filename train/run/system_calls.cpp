#include "train/run/system_calls.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace tapestry {
namespace {

SystemCalls* chosen = nullptr;

}  // namespace

int SystemCalls::openat(int folder, const char* path, int flags) {
  return ::openat(folder, path, flags | O_CLOEXEC, 0666);
}
ssize_t SystemCalls::write(int file, const void* bytes, std::size_t count) {
  return ::write(file, bytes, count);
}
int SystemCalls::ftruncate(int file, off_t length) { return ::ftruncate(file, length); }
int SystemCalls::fsync(int file) { return ::fsync(file); }
int SystemCalls::close(int file) { return ::close(file); }
int SystemCalls::renameat(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}
int SystemCalls::unlinkat(int folder, const char* path) { return ::unlinkat(folder, path, 0); }
int SystemCalls::mkdir(const char* path) { return ::mkdir(path, 0777); }
int SystemCalls::rmdir(const char* path) { return ::rmdir(path); }

SystemCalls& system_calls() {
  static SystemCalls own;
  return chosen ? *chosen : own;
}

void choose_system_calls(SystemCalls* calls) { chosen = calls; }

}  // namespace tapestry
