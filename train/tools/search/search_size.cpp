#include <algorithm>
#include <limits>

#include "autograd/counted.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/tools/search/search.hpp"

namespace tapestry {

SearchSize size_of(const std::vector<Candidate>& candidates) {
  const Config& base = candidates.front().config;
  const Given<SearchOptions> options = search_settings.of(base);
  const std::int64_t steps = base[key::steps], most_seeds = options.seeds;
  const bool is_aa_test = options.is_aa_test();  // several searches, of one candidate each
  const std::int64_t searches = is_aa_test ? std::ssize(candidates) - 1 : 1;
  const std::int64_t all = is_aa_test ? 2 : std::ssize(candidates), total = options.total_steps;
  const std::int64_t seeds = (is_aa_test ? 4 : 2) * most_seeds * searches;
  const bool is_halving = options.method == SearchMethod::halving;
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max() - seeds;
  base.expect(base[key::seed] <= largest, key::seed, "must be at most {} with search.seeds = {}",
              largest, most_seeds);
  options.expect(!is_halving || options.minutes == 0, "minutes",
                 "successive halving needs a budget in steps; set search.steps instead");
  SearchSize size{.candidates = std::ssize(candidates) - 1};
  std::int64_t left = all, before = 0;
  for (const std::int64_t round : is_halving ? rounds_of(all - 1, steps) : std::vector{steps}) {
    if (before > 0) left = 1 + std::max<std::int64_t>(1, (left - 1) / halving_factor);
    size.least_steps += first_seeds * left * (round - before);
    before = round;
  }
  size.least_runs = first_seeds * all;
  const std::int64_t more = (most_seeds - first_seeds) * left, judged = 2 * most_seeds;
  size.most_runs = size.least_runs + more + judged;
  size.most_steps = size.least_steps + (more + judged) * steps;
  options.expect(total == 0 || size.least_steps + judged * steps <= total, "total_steps",
                 "the first {} and the final test need {} steps; raise this, or lower search.steps",
                 counted(size.least_runs, "run"), size.least_steps + judged * steps);
  if (total > 0) size.most_steps = std::min(size.most_steps, total);
  for (std::int64_t* work :
       {&size.least_runs, &size.most_runs, &size.least_steps, &size.most_steps})
    *work *= searches;
  return size;
}

}  // namespace tapestry
