#pragma once

#include <string>
#include <vector>

#include "train/tools/report/recorded_run.hpp"

namespace tapestry {

// What a run was, as HTML: data, version, processor, the commands that began it and make it again,
// its parameters by layer, config, sessions and profile.
std::string facts_of(const RecordedRun& recorded);

std::string command_text(const std::vector<std::string>& words);  // as a shell reads it back

}  // namespace tapestry
