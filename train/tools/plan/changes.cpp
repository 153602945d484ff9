#include "train/tools/plan/changes.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "train/config/keys.hpp"
#include "train/trainer/begin_task.hpp"

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

// Steps of [least, most] parts, as far as that divides the examples.
std::vector<Candidate> in_micro_batches(const Config& config, std::int64_t least,
                                        std::int64_t most) {
  std::vector<Candidate> all;
  for (std::int64_t micro_batches = least; micro_batches <= most; ++micro_batches)
    if (config[key::batch_size] % micro_batches == 0)
      all.push_back(
          {{fmt::format("{}={}", key::micro_batches.name, micro_batches)},
           "a step is computed in other parts, of which more take a little longer; the last "
           "digits of its sums differ, and what dropout or a sample draws"});
  return all;
}

// At most 128, or as many as the config has: a dry run goes through each of them.
std::vector<Candidate> more_micro_batches(const Config& config) {
  constexpr std::int64_t most = 128;
  const std::int64_t micro_batches = config[key::micro_batches];
  return in_micro_batches(config, micro_batches + 1,
                          std::min(config[key::batch_size], std::max(most, micro_batches)));
}

std::vector<Candidate> fewer_micro_batches(const Config& config) {
  return in_micro_batches(config, 1, config[key::micro_batches] - 1);
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

// Each with one more candidate besides.
std::vector<Candidate> each_with(const Candidate& one, const std::vector<Candidate>& others) {
  std::vector<Candidate> all = {one};
  for (const Candidate& other : others) all.push_back(both(one, other));
  return all;
}

// Of a step, lists of what holds less and less, from the list that costs least.
std::vector<std::vector<Candidate>> lighter_steps(const Config& config, int ranks) {
  const std::vector<Candidate> micro_batches = more_micro_batches(config),
                               shared = shared_state(config, ranks);
  std::vector<std::vector<Candidate>> lists = {{Candidate{}}};
  if (!shared.empty()) lists.push_back(shared);
  const Candidate state = shared.empty() ? Candidate{} : shared.front();
  lists.push_back(each_with(state, micro_batches));
  lists.push_back(each_with(both(state, recomputed), micro_batches));
  for (const Candidate& fewer : fewer_micro_batches(config)) {  // of which sums are kept
    lists.push_back({both(state, fewer)});
    lists.push_back({both(both(state, recomputed), fewer)});
  }
  return lists;
}

// What a candidate comes to; nothing where the task has no such key.
std::optional<Change> change_of(const Candidate& candidate, const ConfigWith& config_with,
                                int ranks) try {
  const Config config = config_with(candidate.overrides);
  check_training_keys(config, ranks);
  return Change{candidate.overrides, candidate.cost,
                plan_fullest(config, {.ranks = ranks, .seconds = 0.5})};
} catch (const InputError&) {
  return std::nullopt;
}

// The first of a list that fits. What they come to falls, and may rise again once there are more
// sums to keep than activations to save: then the others are not tried.
std::optional<Change> first_that_fits(
    const std::vector<Candidate>& list, std::int64_t bytes, std::int64_t MemoryPlan::*figure,
    const std::function<std::optional<Change>(const Candidate&)>& change) {
  constexpr int most_rises = 2;
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  int rises = 0;
  for (const Candidate& candidate : list) {
    std::optional<Change> tried = change(candidate);
    if (!tried) continue;
    const std::int64_t comes_to = tried->memory.*figure;
    if (comes_to <= bytes) return tried;
    rises = comes_to > before ? rises + 1 : 0;
    if (rises == most_rises) break;
    before = comes_to;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Change> smallest_change(const ConfigWith& config_with, const MemoryPlan& now,
                                      int ranks, std::int64_t bytes) {
  const Config config = config_with({});
  if (ranks == 1 && now.weights + now.gradients + now.optimizer > bytes) return std::nullopt;
  const auto change = [&](const Candidate& candidate) {
    return change_of(candidate, config_with, ranks);
  };
  const auto evaluation = first_that_fits(each_with({}, smaller_evaluations(config)), bytes,
                                          &MemoryPlan::evaluation_peak, change);
  if (!evaluation) return std::nullopt;
  const Candidate evaluated{evaluation->overrides, evaluation->cost};
  for (const std::vector<Candidate>& list : lighter_steps(config, ranks)) {
    std::vector<Candidate> with_evaluation;
    for (const Candidate& step : list) with_evaluation.push_back(both(evaluated, step));
    if (auto found = first_that_fits(with_evaluation, bytes, &MemoryPlan::held, change))
      return found;
  }
  return std::nullopt;
}

}  // namespace tapestry
