#pragma once

#include "train/config/settings.hpp"

namespace tapestry {

enum class SearchMethod { grid, random, halving };

// The options of `tapestry search`, the section [search] of a config. A training ignores them.
struct SearchOptions {
  // "optim.learning_rate=1e-3,3e-3"; "seed" alone: an A/A test
  std::vector<std::string> vary{};
  SearchMethod method = SearchMethod::grid;
  std::int64_t trials = 0;  // 0: all combinations of a grid, or else default_trials
  std::int64_t seeds = 5;   // largest number of seeds per candidate
  std::int64_t steps = 0;   // 0: train.steps
  double minutes = 0;       // 0: no limit; so for the totals
  std::int64_t total_steps = 0;
  double total_minutes = 0;

  // Returns whether the candidates differ from the base only by their seeds.
  bool is_aa_test() const { return vary == std::vector<std::string>{"seed"}; }
};

extern const SettingsOf<SearchOptions> search_settings;

}  // namespace tapestry
