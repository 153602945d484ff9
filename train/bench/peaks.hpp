#pragma once

#include <functional>

// What this machine can do at most on all threads, measured now: machines drift.
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

}  // namespace tapestry
