#pragma once

#include <filesystem>
#include <string>

namespace tapestry {

int physical_cores();  // among the processors this process may use

// The processors' time that the control groups of this process grant it, in processors: the least
// of its own group's quota and of those above (cpu.max, or cpu.cfs_quota_us in version 1). Infinite
// where none is set. `root` stands for "/".
double cpu_quota(const std::filesystem::path& root = "/");

// The processors this process may use: a 1 for each that it may, a 0 for others, by their numbers.
std::string allowed_processors();
int machine_cores();  // physical ones, whoever may use them

int usable_cores();  // physical_cores(), or the quota, rounded up, where that is less

}  // namespace tapestry
