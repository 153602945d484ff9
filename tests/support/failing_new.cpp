#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

// A library to preload (LD_PRELOAD) into `tapestry`: the call of operator new with number
// TAPESTRY_FAILING_NEW fails once. Counting begins with the first call of signal(), when the
// command line is read, because earlier failures cannot print a message. At the end the number of
// calls is written to the file TAPESTRY_COUNT_NEW. With TAPESTRY_NO_PROC set, links in /proc are
// not found.
namespace {

std::atomic<bool> counting = false;
std::atomic<long> count = 0;

long failing() {
  static const char* const text = std::getenv("TAPESTRY_FAILING_NEW");
  static const long number = text ? std::atol(text) : 0;
  return number;
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting && ++count == failing()) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (!memory) throw std::bad_alloc();
  return memory;
}

[[gnu::destructor]] void write_count() {
  const char* path = std::getenv("TAPESTRY_COUNT_NEW");
  FILE* file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return;
  std::fprintf(file, "%ld\n", count.load());
  std::fclose(file);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}

extern "C" ssize_t readlink(const char* path, char* target, std::size_t size) noexcept {
  using ReadLink = decltype(&readlink);
  static const auto real = reinterpret_cast<ReadLink>(dlsym(RTLD_NEXT, "readlink"));
  const bool is_missing = std::getenv("TAPESTRY_NO_PROC") && std::strncmp(path, "/proc/", 6) == 0;
  if (!is_missing) return real(path, target, size);
  errno = ENOENT;
  return -1;
}

extern "C" void (*signal(int number, void (*handler)(int)) noexcept)(int) {
  counting = true;
  using Signal = decltype(&signal);
  static const auto real = reinterpret_cast<Signal>(dlsym(RTLD_NEXT, "signal"));
  return real(number, handler);
}
