#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <fstream>

#include "autograd/check.hpp"
#include "tests/support/folder.hpp"

namespace tapestry {

std::map<std::string, FuzzTarget>& fuzz_targets() {
  static std::map<std::string, FuzzTarget> targets;
  return targets;
}

RegisterFuzzTarget::RegisterFuzzTarget(const std::string& name, FuzzTarget target) {
  fuzz_targets()[name] = std::move(target);
}

void feed(const FuzzTarget& target, std::string_view bytes) {
  try {
    target(bytes);
  } catch (const InputError& error) {
    const std::size_t length = std::string_view(error.what()).size();
    if (length == 0 || length > 10'000 + 10 * bytes.size())
      throw std::logic_error(fmt::format("a message of {} bytes", length));
  }
}

const std::string& scratch_folder() {
  static const TemporaryFolder folder;
  static const std::string path = folder.path();
  return path;
}

std::string written_file(const std::string& name, std::string_view bytes) {
  const std::string path = scratch_folder() + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), std::ssize(bytes));
  require(file.flush().good(), "fuzz: cannot write {}", path);
  return path;
}

std::vector<std::string_view> cut_at_zeros(std::string_view bytes) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = bytes.find('\0');
    parts.push_back(bytes.substr(0, end));
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return parts;
}

}  // namespace tapestry
