#pragma once

#include <string>
#include <vector>

#include "autograd/tensor.hpp"
#include "train/config/config.hpp"

// Patterns of parameter names, as train.trainable and optim.groups hold them.
namespace tapestry {

// Returns whether a pattern matches: "blocks.5.*" and "blocks.5" match the same parameters.
bool matches(const std::string& pattern, const std::string& name);

// Throws InputError unless the pattern, which is in the value of `key`, matches a parameter that is
// not fixed.
void expect_match(const Config& config, const KeyInfo& key, const std::string& pattern,
                  const std::vector<Parameter*>& parameters);

}  // namespace tapestry
