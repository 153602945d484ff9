#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.hpp"
#include "train/run/checkpoint.hpp"

namespace tapestry {

// A config that a search tries. The first candidate is the base, without changes.
struct Candidate {
  std::string name{};                   // name of its folder: "base", or "candidate-01"
  std::vector<std::string> settings{};  // what it changes: "optim.learning_rate=0.003"
  Config config;
  TrainingState initial{};               // of a new base: initial_state()
  std::int64_t validation_examples = 0;  // number of those of the validation split, if it is new
  std::string effective{};     // effective_checksum(); empty for a candidate that is not new
  std::string tried_before{};  // its result in another search: "searches/x/base, loss 1.8412"
};

// Returns the number that the text is; NaN if it is none.
double number_of(std::string_view text);

// Returns the base and the candidates of search.vary, each different config once. `config_with`
// returns the config with overrides applied last. Throws InputError, before any training, for an
// empty or misspelled search.vary, for more than 1000 candidates, for a setting that a training
// or the method refuses, and for a setting with which losses cannot be compared. Without `is_new`,
// the search has begun: the settings have been checked, and are not checked again. In an A/A test
// each candidate is the base with other seeds: candidate n has those from base_seed_of(n) +
// 2 search.seeds on.
std::vector<Candidate> make_candidates(
    const std::function<Config(const std::vector<std::string>& overrides)>& config_with,
    bool is_new = true);

// Returns the first seed of the base in test n, from 1, of an A/A test. A search needs the seeds of
// a candidate, and as many new ones for the final test.
std::int64_t base_seed_of(const Config& base, std::int64_t test);

// Reads the data of a config, and returns initial_state().
TrainingState initial_state_of(const Config& config);

// Returns the steps of the rounds of successive halving (Li et al. 2018) with eta = 3, the last of
// which has `steps`: {100, 300, 900} for 9 to 26 candidates and 900 steps. Each round keeps a third
// of the candidates. Returns {steps} for fewer than 3 candidates.
std::vector<std::int64_t> rounds_of(std::int64_t candidates, std::int64_t steps);
inline constexpr std::int64_t halving_factor = 3;

}  // namespace tapestry
