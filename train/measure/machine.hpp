#pragma once

#include <filesystem>
#include <functional>

#include "train/config/config.hpp"

// Measures the peaks of this machine on all threads, at each call because clock frequencies change,
// and the time and memory of this process.
namespace tapestry {

// Returns the float32 GFLOP/s of multiply-adds in registers, which no matrix product can exceed.
double measure_arithmetic_peak();

// Returns the GFLOP/s of a large float32 matrix product in the precision of this thread, the most
// that the backend reaches.
double measure_best_product();

// Returns the GB/s, reads and writes counted, of changing a large array in place. A copy reaches
// two thirds of it, because it also reads what it overwrites.
double measure_memory_peak();

// Returns the seconds of one call of `work`.
double time_once(const std::function<void()>& work);

// Returns the seconds since the process started, from the kernel's record (resolution 10 ms); 0 if
// it is unknown, because /proc cannot be read. `root` contains the folder proc.
double process_age_s(const std::filesystem::path& root = "/");

// Returns the resident memory of this process in bytes; 0 if it is unknown.
std::int64_t resident_bytes();

// Sets the number of threads, unless train.threads is 0, and the precision of this thread's matrix
// products from the config.
void use_machine_as(const Config& config);

}  // namespace tapestry
