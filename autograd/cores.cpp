#include "autograd/cores.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

namespace tapestry {
namespace {

using Path = std::filesystem::path;

constexpr double no_quota = std::numeric_limits<double>::infinity();

// A quota and its period, both in microseconds; "max", -1 and a file that is not there are none.
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

// Of the group `name` ("/a/b") below a controller's folder, and of those above it. Inside a
// container the name may be the host's, of which only the folder itself is there.
double least_quota(const Path& controller, const std::string& name) {
  double least = quota_of(controller);
  Path group = controller;
  for (const Path& part : Path(name).lexically_normal().relative_path())
    least = std::min(least, quota_of(group /= part));
  return least;
}

// Processors of one core are siblings.
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
  const Path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/a/b", or "4:cpu,cpuacct:/a/b"
  double least = no_quota;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string name = line.substr(second + 1);
    if (controllers.empty())
      least = std::min(least, least_quota(mount, name));
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      least = std::min(
          {least, least_quota(mount / "cpu", name), least_quota(mount / controllers, name)});
  }
  return least;
}

int usable_cores() {
  return static_cast<int>(std::min<double>(physical_cores(), std::ceil(cpu_quota())));
}

}  // namespace tapestry
