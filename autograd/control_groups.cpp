#include "autograd/control_groups.hpp"

#include <fstream>

namespace tapestry {
namespace {

using Path = std::filesystem::path;

// The group `name` ("/a/b") below a controller's folder, and those above it.
void add_groups(const Path& controller, const std::string& name, std::vector<Path>& groups) {
  Path group = controller;
  groups.push_back(group);
  for (const Path& part : Path(name).lexically_normal().relative_path())
    groups.push_back(group /= part);
}

}  // namespace

std::vector<Path> control_groups(const std::string& controller, const Path& root) {
  const Path mount = root / "sys/fs/cgroup";
  std::ifstream own(root / "proc/self/cgroup");  // "0::/a/b", or "4:cpu,cpuacct:/a/b"
  std::vector<Path> groups;
  for (std::string line; std::getline(own, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string name = line.substr(second + 1);
    if (controllers.empty()) add_groups(mount, name, groups);
    if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    add_groups(mount / controller, name, groups);
    add_groups(mount / controllers, name, groups);
  }
  return groups;
}

}  // namespace tapestry
