#include "train/plan/changes.hpp"

#include <algorithm>

#include "train/loop/training.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

struct Candidate {
  std::vector<std::string> overrides{};
  std::string cost{};
};

// Halves of how many examples are evaluated at a time: the same figures.
std::vector<Candidate> smaller_evaluations(const Config& config) {
  std::vector<Candidate> all;
  for (std::int64_t size = config[key::eval_batch_size] / 2; size >= 1; size /= 2)
    all.push_back({{fmt::format("{}={}", key::eval_batch_size.name, size)},
                   "evaluations take a little longer; the figures stay"});
  return all;
}

// More parts of a step: what divides its examples, and leaves each rank its own.
std::vector<Candidate> more_parts(const Config& config) {
  std::vector<Candidate> all;
  const std::int64_t batch = config[key::batch_size];
  for (std::int64_t parts = config[key::micro_batches] + 1; parts <= batch; ++parts)
    if (batch % parts == 0)
      all.push_back({{fmt::format("{}={}", key::micro_batches.name, parts)},
                     "a step is computed in parts, which take a little longer; the last digits of "
                     "its sums differ"});
  return all;
}

std::vector<Candidate> shared_state(const Config& config, int ranks) {
  if (ranks == 1 || config[key::shard_optimizer]) return {};
  return {{{key::shard_optimizer.name + "=true"}, "more messages; the same bits"}};
}

const Candidate recomputed{
    {"train.checkpoint_activations=true"},
    "blocks are computed twice, about a third more arithmetic; the same bits"};

Candidate both(const Candidate& one, const Candidate& other) {
  Candidate joined = one;
  joined.overrides.insert(joined.overrides.end(), other.overrides.begin(), other.overrides.end());
  joined.cost += (one.cost.empty() || other.cost.empty() ? "" : "; ") + other.cost;
  return joined;
}

// Of a step, from what costs least to what costs most.
std::vector<Candidate> lighter_steps(const Config& config, int ranks) {
  std::vector<Candidate> all = {{}};
  for (const Candidate& shared : shared_state(config, ranks)) all.push_back(shared);
  const Candidate state = all.back();
  const std::vector<Candidate> parts = more_parts(config);
  for (const Candidate& part : parts) all.push_back(both(state, part));
  all.push_back(both(state, recomputed));
  for (const Candidate& part : parts) all.push_back(both(both(state, recomputed), part));
  return all;
}

// What a candidate comes to; nothing where the task has no such key.
std::optional<Change> change_of(const Candidate& candidate, const ConfigWith& config_with,
                                const MemoryPlanOptions& options) try {
  const Config config = config_with(candidate.overrides);
  check_training_keys(config, options.ranks);
  return Change{candidate.overrides, candidate.cost, plan_memory(config, options)};
} catch (const InputError&) {
  return std::nullopt;
}

}  // namespace

std::optional<Change> smallest_change(const ConfigWith& config_with,
                                      const MemoryPlanOptions& options, std::int64_t bytes) {
  const Config config = config_with({});
  std::vector<Candidate> evaluations = smaller_evaluations(config);
  evaluations.insert(evaluations.begin(), Candidate{});
  const auto evaluation = std::ranges::find_if(evaluations, [&](const Candidate& candidate) {
    const auto change = change_of(candidate, config_with, options);
    return change && change->memory.evaluation_peak <= bytes;
  });
  if (evaluation == evaluations.end()) return std::nullopt;
  for (const Candidate& step : lighter_steps(config, options.ranks)) {
    std::optional<Change> change = change_of(both(*evaluation, step), config_with, options);
    if (change && change->memory.held <= bytes) return change;
  }
  return std::nullopt;
}

}  // namespace tapestry
