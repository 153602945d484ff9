#pragma once

#include <string>
#include <vector>

#include "autograd/profile.hpp"

namespace tapestry {

// Which steps of a training `--profile` looks at: the first ones still make buffers and primitives.
inline constexpr std::int64_t profile_skipped_steps = 5, profile_steps = 20;

// A line an op and phase, the slowest first: time a step, share, GFLOP/s and GB/s with their share
// of the peaks, which it measures.
std::string profile_table(const std::vector<profile::Event>& events, std::int64_t steps);

// The Trace Event Format that chrome://tracing and Perfetto open.
std::string profile_trace(const std::vector<profile::Event>& events);

}  // namespace tapestry
