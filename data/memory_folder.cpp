#include "data/memory_folder.hpp"

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr const char* folder_path = "/memory";

thread_local const MemoryFolder* folder_in_force = nullptr;

std::string path_of(const std::string& name) { return std::string(folder_path) + "/" + name; }

}  // namespace

void MemoryFolder::add(const std::string& name, Content content) {
  expect_input(!name.empty() && name.find('/') == name.npos && !name.starts_with("."),
               "data in memory: the name {:?}; expected that of a file, without '/' and a '.' at "
               "its beginning",
               name);
  expect_input(files_.emplace(path_of(name), std::move(content)).second,
               "data in memory: two are named {:?}; rename one", name);
}

std::string MemoryFolder::path() const {
  return files_.size() == 1 ? files_.begin()->first : folder_path;
}

bool MemoryFolder::is_folder(const std::string& path) const { return path == folder_path; }

std::vector<std::string> MemoryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [path, content] : files_) names.push_back(path.substr(path_of("").size()));
  return names;
}

UseMemoryFolder::UseMemoryFolder(const MemoryFolder* folder) : Restore(folder_in_force, folder) {}

const MemoryFolder* memory_folder() { return folder_in_force; }

}  // namespace tapestry
