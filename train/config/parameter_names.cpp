#include "train/config/parameter_names.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

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

ParameterGroup parameter_group(const Config& config, const KeyInfo& key, const std::string& text) {
  const auto expect = [&](bool holds) {
    config.expect(
        holds, key,
        "{}: expected a pattern of names, then lr=FACTOR, decay=NUMBER or l2=NUMBER from 0 "
        "to 1000, or several, such as \"blocks.* lr=0.5 decay=0\"",
        to_toml(Value(text)));
  };
  std::istringstream words(text);
  ParameterGroup group;
  expect(static_cast<bool>(words >> group.pattern));
  std::set<std::string> named;
  for (std::string word; words >> word;) {
    const std::size_t end = std::min(word.find('='), word.size() - 1);
    const std::string name = word.substr(0, end), number = word.substr(end + 1);
    double value = -1;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    expect((name == "lr" || name == "decay" || name == "l2") && named.insert(name).second &&
           error == std::errc() && stop == number.data() + number.size() && value >= 0 &&
           value <= 1000);
    (name == "lr"      ? group.options.rate_factor
     : name == "decay" ? group.options.weight_decay.emplace()
                       : group.l2.emplace()) = value;
  }
  expect(!named.empty());
  group.has_options = named.contains("lr") || named.contains("decay");
  return group;
}

}  // namespace tapestry
