#include "train/fine_tuning.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "autograd/buffer_pool.hpp"
#include "layers/adapters.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"
#include "train/config/parameter_names.hpp"

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

void fix_others(const std::vector<Parameter*>& parameters, const Config& config,
                const std::string& head) {
  std::vector<std::string> patterns = config[key::trainable];
  for (const std::string& pattern : patterns)
    expect_match(config, key::trainable, pattern, parameters);
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
