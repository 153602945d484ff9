#pragma once

#include <cstdint>
#include <functional>

namespace tapestry {

int num_threads();                // by default usable_cores(), or OMP_NUM_THREADS where it is set
void set_num_threads(int count);  // for every later parallel_for; at least 1

// Calls body(begin, end) for the pieces [0, grain), [grain, 2·grain), … of [0, n). The pieces do
// not depend on the number of threads, so neither does a result that is summed piece by piece.
// One piece, or a call from inside another parallel_for, runs on the calling thread. An exception
// from body is thrown again here. While the thread rehearses, it calls nothing.
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tapestry
