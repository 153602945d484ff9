#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tapestry {

// Returns the folders of the control groups, versions 1 and 2, that limit what a controller ("cpu",
// "memory") grants to this process: its own group and all groups above. `root` is the root of the
// file system. The folders need not exist: in a container only the outermost one may.
std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

int physical_cores();  // returns the number of cores of the allowed processors
int machine_cores();   // returns the number of cores of the machine

// Returns the processor time that the control groups grant to this process, in processors: the
// smallest quota of its group and those above (cpu.max, or cpu.cfs_quota_us), or infinity.
double cpu_quota(const std::filesystem::path& root = "/");

// Returns a character for each processor, by its number, up to the last one that this process may
// use: '1' if the process may use it, else '0'. Returns "1" if the system does not tell.
std::string allowed_processors();

// Returns the smaller of physical_cores() and the quota, rounded up.
int usable_cores();

}  // namespace tapestry
