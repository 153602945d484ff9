#pragma once

#include <filesystem>

namespace tapestry {

int physical_cores();  // among the processors this process may use

// The processors' time that the control groups of this process grant it, in processors: the least
// of its own group's quota and of those above (cpu.max, or cpu.cfs_quota_us in version 1). Infinite
// where none is set. `root` stands for "/".
double cpu_quota(const std::filesystem::path& root = "/");

int usable_cores();  // physical_cores(), or the quota, rounded up, where that is less

}  // namespace tapestry
