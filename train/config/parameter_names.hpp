#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.hpp"
#include "train/config/config.hpp"

// Patterns of parameter names, as train.trainable and optim.groups hold them.
namespace tapestry {

// Returns whether a pattern matches: "blocks.5.*" and "blocks.5" match the same parameters.
bool matches(const std::string& pattern, const std::string& name);

// Throws InputError unless the pattern, which is in the value of `key`, matches a parameter that is
// not fixed.
void expect_match(const Config& config, const KeyInfo& key, const std::string& pattern,
                  const std::vector<Parameter*>& parameters);

// A group of parameters with options of its own.
struct ParameterGroup {
  std::string pattern;
  ParameterOptions options{};
  bool has_options = false;    // whether it sets the learning rate or the decay
  std::optional<double> l2{};  // λ of ½ λ ‖θ‖²
};

// Returns the group that a text describes, "blocks.* lr=0.5 decay=0 l2=1e-3". Throws InputError,
// which names `key`, for text of another form.
ParameterGroup parameter_group(const Config& config, const KeyInfo& key, const std::string& text);

}  // namespace tapestry
