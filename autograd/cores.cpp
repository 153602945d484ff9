#include "autograd/cores.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>

namespace tapestry {
namespace {

using Path = std::filesystem::path;

// Appends the control group `name` ("/a/b") of a controller's folder, and all groups above it.
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

namespace {

constexpr double no_quota = std::numeric_limits<double>::infinity();

// Returns quota / period, both in microseconds; no quota for "max", -1 and missing files.
double ratio(std::istream& quota, std::istream& period) {
  double granted = 0, every = 0;
  return quota >> granted && period >> every && granted > 0 && every > 0 ? granted / every
                                                                         : no_quota;
}

double quota_of(const Path& group) {
  std::ifstream max(group / "cpu.max");  // "50000 100000"
  std::ifstream quota(group / "cpu.cfs_quota_us"), period(group / "cpu.cfs_period_us");
  return std::min(ratio(max, max), ratio(quota, period));
}

// Returns the number of cores of the processors marked by '1'; siblings share a core.
int cores_of(const std::string& processors) {
  std::set<std::string> cores;
  for (std::size_t cpu = 0; cpu < processors.size(); ++cpu) {
    if (processors[cpu] != '1') continue;
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings = fmt::format("cpu{}", cpu);
    std::getline(file, siblings);
    cores.insert(siblings);
  }
  return std::max<int>(1, cores.size());
}

}  // namespace

std::string allowed_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return "1";
  std::string processors(CPU_SETSIZE, '0');
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) processors[cpu] = '1';
  processors.erase(processors.find_last_of('1') + 1);
  return processors;
}

int physical_cores() { return cores_of(allowed_processors()); }

int machine_cores() {
  return cores_of(std::string(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)), '1'));
}

double cpu_quota(const Path& root) {
  double least = no_quota;
  for (const Path& group : control_groups("cpu", root)) least = std::min(least, quota_of(group));
  return least;
}

int usable_cores() {
  return static_cast<int>(std::min<double>(physical_cores(), std::ceil(cpu_quota())));
}

}  // namespace tapestry
