#include "train/config/parameter_names.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace tapestry {
namespace {

// Returns the names of all modules and parameters, for suggestions.
std::vector<std::string> names_in(const std::vector<Parameter*>& parameters) {
  std::set<std::string> names;
  for (const Parameter* parameter : parameters)
    for (std::size_t end = 0; end != std::string::npos;) {
      end = parameter->name.find('.', end + 1);
      names.insert(parameter->name.substr(0, end));
    }
  return {names.begin(), names.end()};
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  const auto is_like = [&](const std::string& wanted) {
    return fnmatch(wanted.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  };
  return is_like(pattern) || is_like(pattern + ".*");
}

void expect_match(const Config& config, const KeyInfo& key, const std::string& pattern,
                  const std::vector<Parameter*>& parameters) {
  const bool is_known = std::ranges::any_of(parameters, [&](const Parameter* parameter) {
    return parameter->role != Role::fixed && matches(pattern, parameter->name);
  });
  config.expect(
      is_known, key,
      "expected names of parameters, but no trainable parameter of the model matches {}{}",
      to_toml(Value(pattern)), did_you_mean(pattern, names_in(parameters), "\""));
}

}  // namespace tapestry
