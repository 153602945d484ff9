#pragma once

#include "train/config/settings.hpp"

namespace tapestry {

enum class SearchMethod { grid, random, halving };

// The options of `tapestry search`, the section [search] of a config. A training ignores them.
struct SearchOptions {
  std::vector<std::string> vary{};  // "optim.learning_rate=1e-3,3e-3"
  SearchMethod method = SearchMethod::grid;
  std::int64_t trials = 0;  // 0: all combinations of a grid, or else 16
  std::int64_t seeds = 5;   // largest number of seeds per candidate
  std::int64_t steps = 0;   // 0: train.steps
  double minutes = 0;       // 0: no limit; so for the totals
  std::int64_t total_steps = 0;
  double total_minutes = 0;
};

extern const SettingsOf<SearchOptions> search_settings;

}  // namespace tapestry
