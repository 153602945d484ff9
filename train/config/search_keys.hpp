#pragma once

#include "train/config/config.hpp"

// The config keys of [search], which `tapestry search` reads. A training ignores these keys.
namespace tapestry {

enum class SearchMethod { grid, random, halving };

namespace key {

inline const Key<std::vector<std::string>> search_vary{
    "search.vary",
    {},
    "settings that a search varies: \"KEY=A,B,C\" or \"KEY=log:LOW:HIGH\"; empty: none",
    {.does_not_affect_result = true}};
inline const Condition searched = search_vary.is_not({});
inline const Choice<SearchMethod> search_method = [] {
  Choice<SearchMethod> method{"search.method",
                              SearchMethod::grid,
                              "which combinations of the values are tried, and for how long",
                              {{"grid", SearchMethod::grid},
                               {"random", SearchMethod::random},
                               {"halving", SearchMethod::halving}},
                              {searched}};
  method.limits.does_not_affect_result = true;
  return method;
}();
inline const Key<std::int64_t> search_trials{
    "search.trials",
    0,
    "number of randomly drawn candidates; 0: all combinations of a grid, or else 16",
    {.low = 0, .high = 1000, .does_not_affect_result = true, .used_if = {searched}}};
inline const Key<std::int64_t> search_seeds{
    "search.seeds",
    5,
    "largest number of seeds per candidate, and number of new seeds of the final test",
    {.low = 2, .high = 1000, .does_not_affect_result = true, .used_if = {searched}}};
inline const Key<std::int64_t> search_steps{
    "search.steps",
    0,
    "steps of each run; 0: train.steps",
    {.low = 0, .high = 1e12, .does_not_affect_result = true, .used_if = {searched}}};
inline const Key<double> search_minutes{
    "search.minutes",
    0,
    "minutes after which a run ends with its next evaluation; 0: no limit",
    {.low = 0, .high = 1e6, .does_not_affect_result = true, .used_if = {searched}}};
inline const Key<std::int64_t> search_total_steps{
    "search.total_steps",
    0,
    "steps of all runs of a search; 0: no limit",
    {.low = 0, .high = 1e15, .does_not_affect_result = true, .used_if = {searched}}};
inline const Key<double> search_total_minutes{
    "search.total_minutes",
    0,
    "minutes of all runs after which a search adds no seeds; 0: no limit",
    {.low = 0, .high = 1e6, .does_not_affect_result = true, .used_if = {searched}}};

}  // namespace key
}  // namespace tapestry
