#pragma once

#include <cstdint>
#include <functional>

namespace tapestry {

// Returns the number of threads: by default OMP_NUM_THREADS if it is set, else usable_cores().
int num_threads();
// Sets the number of threads of all later loops. Throws std::invalid_argument below 1.
void set_num_threads(int count);

// Calls body(begin, end) for the pieces [0, grain), [grain, 2·grain), … of [0, n), on all threads.
// The pieces do not depend on the number of threads, so a sum by pieces does not either. A single
// piece, and a loop inside a piece, runs on the calling thread. Rethrows an exception of body, one
// if there are several. Throws std::invalid_argument for a grain below 1. Does nothing in a DryRun.
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tapestry
