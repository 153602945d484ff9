#pragma once

#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace tapestry {

// The config of a training that begins with the weights of the run or checkpoint `from`, whose
// model it need not say again; empty: with weights that are drawn.
Config training_config(const std::string& path_or_name, std::vector<std::string> overrides,
                       const std::string& from);

}  // namespace tapestry
