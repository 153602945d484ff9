#pragma once

#include <functional>

#include "train/config/config.hpp"

// The machine at hand: what it can do at most on all threads, measured now because machines drift;
// and clocks.
namespace tapestry {

// float32 GFLOP/s of multiply-adds in registers, which no engine can exceed.
double measure_arithmetic_peak();

// float32 GFLOP/s of large matrix products: the best that the engine reaches.
double measure_best_product();

// GB/s of changing a large array where it is, reads and writes counted. A copy reads unseen what it
// is to overwrite, and comes to two thirds of it.
double measure_memory_peak();

// Seconds that `work` takes, once.
double time_once(const std::function<void()>& work);

// Returns the seconds since the process started, as the kernel has them (to 10 ms).
double process_age_s();

// Sets the process's threads and the precision of its matrix products.
void use_machine_as(const Config& config);

}  // namespace tapestry
