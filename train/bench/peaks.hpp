#pragma once

// What this machine can do at most, measured now: machines drift.
namespace tapestry {

// float32 GFLOP/s of large matrix products on all threads: the machine's practical limit.
double measure_matrix_peak();

// GB/s of adding large arrays on all threads, reads and writes counted.
double measure_memory_peak();

}  // namespace tapestry
