#pragma once

#include <string>
#include <vector>

#include "train/tools/search/search.hpp"

namespace tapestry {

// Returns whether a folder is that of an experiment: it has a ledger.jsonl.
bool is_experiment(const std::string& folder);

// Returns an HTML page about an experiment, which may still be running. Throws InputError as
// recorded_search() does.
std::string report_of_experiment(const std::string& folder);

// A difference of the mean losses of other candidates and of references, over pairs of these.
struct LossDifference {
  std::int64_t pairs = 0;
  std::int64_t seeds = 0;  // seeds with which all of these candidates had the same budget
  // The test of the means over the pairs, one for each seed. Without seeds, it has no meaning.
  PairedTest test{};

  // Returns "0.012 to 0.034", the 95 % confidence interval; "-" without a spread of seeds.
  std::string interval() const;
  std::string value() const;  // returns "+0.023"; "-" without seeds
};
LossDifference difference_from(const Contestant& reference, const Contestant& other);

// The effect of a value of a varied key: the difference from the reference value over the pairs of
// candidates that share all other varied settings.
struct KeyEffect {
  std::string key{}, value{}, reference{};
  LossDifference difference{};
};

// Returns the effects of the varied keys. The reference of a key is the value of most candidates;
// of several, that of the base or else the first.
std::vector<KeyEffect> effects_of(const SearchResult& result);

}  // namespace tapestry
