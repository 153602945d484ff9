#pragma once

#include <string>
#include <vector>

#include "train/config/config.hpp"
#include "train/tools/reproduce/verify.hpp"

// Who computed what a run recorded, and who computes it again.
namespace tapestry {

// Returns the sessions that trained some of the steps [first, last].
std::vector<Session> sessions_of(const Run& run, std::int64_t first, std::int64_t last);

Session this_process();

// Returns what of the sessions that recorded lets other bits be expected here.
std::vector<std::string> other_makers(const Run& run, const VerifyResult& result,
                                      const Config& config);

}  // namespace tapestry
