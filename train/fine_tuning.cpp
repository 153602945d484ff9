#include "train/fine_tuning.hpp"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <limits>
#include <set>

#include "autograd/buffer_pool.hpp"
#include "layers/adapters.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

bool names(const std::vector<std::string>& targets, const std::string& target) {
  return std::ranges::count(targets, target) > 0;
}

// Throws InputError if both a packed projection and one of its parts are targets.
void expect_apart(const Config& config, const std::string& whole,
                  const std::vector<std::string>& parts) {
  const std::vector<std::string>& targets = config[key::adapter_targets];
  for (const std::string& part : parts)
    config.expect(!names(targets, whole) || !names(targets, part), key::adapter_targets,
                  "{} is contained in {}; leave out one of them", part, whole);
}

// Returns the largest useful rank. A sum of adapters with smaller ranks may need more than the
// smaller side of the map.
std::int64_t highest_rank(const AdapterTarget& target) {
  return target.rows + target.linear->weight.tensor.dim(1);
}

void add_adapters(Module& model, const Config& config) {
  const std::vector<std::string>& targets = config[key::adapter_targets];
  const std::vector<AdapterTarget> all = adapter_targets(model);
  std::set<std::string> known;
  for (const AdapterTarget& target : all) known.insert(target.name);
  config.expect(!known.empty(), key::adapter_rank,
                "adapters need a model with transformer blocks; set this key to 0");
  config.expect(!targets.empty(), key::adapter_targets, "expected one of {}",
                fmt::join(known, ", "));
  for (const std::string& target : targets)
    config.expect(known.contains(target), key::adapter_targets,
                  "unknown target {}; expected one of {}", target, fmt::join(known, ", "));
  expect_apart(config, "query_key_value", {"query", "key", "value"});
  expect_apart(config, "expand", {"gate", "up"});
  for (const AdapterTarget& target : all)
    config.expect(!names(targets, target.name) || config[key::adapter_rank] <= highest_rank(target),
                  key::adapter_rank, "expected at most {}, the sum of rows and columns of {}",
                  highest_rank(target), target.name);
  Random init(seed_of(config), Stream::adapters);
  const auto rank = static_cast<double>(config[key::adapter_rank]);
  const SkipInitialValues drawn(false);  // the base model may be loaded without initial values
  // The limit applies to the checkpoint only; the ranks limit the size of adapters.
  const InitialValuesLimit unlimited(std::numeric_limits<std::int64_t>::max());
  try {
    add_adapters(model,
                 {.rank = config[key::adapter_rank],
                  .scale = config[key::adapter_alpha] / rank,
                  .dropout = config[key::adapter_dropout],
                  .targets = targets},
                 init);
  } catch (const OutOfMemory& error) {
    config.fail(key::adapter_rank,
                fmt::format("{}; lower {}", error.what(), key::adapter_rank.name));
  }
}

// Returns whether a pattern matches: "blocks.5.*" and "blocks.5" match the same parameters.
bool matches(const std::string& pattern, const std::string& name) {
  const auto is_like = [&](const std::string& wanted) {
    return fnmatch(wanted.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  };
  return is_like(pattern) || is_like(pattern + ".*");
}

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

void fix_others(const std::vector<Parameter*>& parameters, const Config& config,
                const std::string& head) {
  std::vector<std::string> patterns = config[key::trainable];
  for (const std::string& pattern : patterns) {
    const bool is_known = std::ranges::any_of(parameters, [&](const Parameter* parameter) {
      return parameter->role != Role::fixed && matches(pattern, parameter->name);
    });
    config.expect(
        is_known, key::trainable,
        "expected names of parameters, but no trainable parameter of the model matches {}{}",
        to_toml(Value(pattern)), did_you_mean(pattern, names_in(parameters), "\""));
  }
  if (!head.empty()) patterns.push_back(head);
  for (Parameter* parameter : parameters)
    if (std::ranges::none_of(patterns, [&](const std::string& pattern) {
          return matches(pattern, parameter->name);
        }))
      parameter->fix();
}

}  // namespace

void prepare_fine_tuning(Module& model, const Config& config, const std::string& head) {
  const bool adapts = config[key::adapter_rank] > 0;
  if (!adapts && config[key::trainable].empty()) return;
  const std::vector<Parameter*> base = model.parameters();
  if (adapts) add_adapters(model, config);
  fix_others(base, config, head);
}

}  // namespace tapestry
