#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "train/measure/statistics.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/search/experiment_report.hpp"

namespace tapestry {
namespace {

// The values of the varied keys of a contestant.
using Values = std::map<std::string, std::string>;

std::vector<Values> values_of(const SearchResult& result) {
  std::set<std::string> keys;
  for (const Contestant& one : result.contestants)
    for (const std::string& setting : one.candidate.settings)
      keys.insert(one.candidate.config.current_name(setting.substr(0, setting.find('='))));
  std::vector<Values> all;
  for (const Contestant& one : result.contestants) {
    const ConfigSettings settings = one.candidate.config.settings();
    Values& values = all.emplace_back();
    for (const std::string& key : keys) values[key] = value_in(settings, key);
  }
  return all;
}

// Returns the distinct values of a key in the order of the contestants, the reference first.
std::vector<std::string> ordered_values(const std::vector<Values>& all, const std::string& key) {
  std::vector<std::string> distinct;
  std::map<std::string, std::int64_t> counts;
  for (const Values& values : all)
    if (counts[values.at(key)]++ == 0) distinct.push_back(values.at(key));
  const auto reference = std::ranges::max_element(
      distinct, {}, [&](const std::string& value) { return counts[value]; });
  std::rotate(distinct.begin(), reference, reference + 1);
  return distinct;
}

// A pair of contestants that differ in one key.
struct Pair {
  const Contestant *reference, *other;
  std::set<std::int64_t> seeds;
};

// Returns the seeds with which both had the same budget, and did not fail.
std::set<std::int64_t> common_seeds(const Contestant& a, const Contestant& b) {
  std::set<std::int64_t> seeds;
  for (const auto& [seed, run] : a.runs)
    if (const auto found = b.runs.find(seed); found != b.runs.end() &&
                                              found->second.budget == run.budget &&
                                              run.failure.empty() && found->second.failure.empty())
      seeds.insert(seed);
  return seeds;
}

// Returns the pairs that have common seeds and did not fail.
std::vector<Pair> pairs_of(const SearchResult& result, const std::vector<Values>& all,
                           const KeyEffect& effect) {
  std::map<Values, const Contestant*> references;  // keyed by the other values
  std::vector<Pair> pairs;
  const auto visit = [&](const std::string& value, const auto& take) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].at(effect.key) != value || result.contestants[i].has_failed()) continue;
      Values others = all[i];
      others.erase(effect.key);
      take(others, result.contestants[i]);
    }
  };
  visit(effect.reference,
        [&](const Values& others, const Contestant& one) { references.emplace(others, &one); });
  visit(effect.value, [&](const Values& others, const Contestant& one) {
    if (const auto found = references.find(others); found != references.end())
      if (std::set<std::int64_t> seeds = common_seeds(*found->second, one); !seeds.empty())
        pairs.push_back({found->second, &one, std::move(seeds)});
  });
  return pairs;
}

LossDifference mean_difference(const std::vector<Pair>& pairs) {
  LossDifference difference{.pairs = std::ssize(pairs)};
  if (pairs.empty()) return difference;
  std::vector<double> references, others;  // means over the pairs, by seed
  for (const std::int64_t seed : pairs.front().seeds) {
    if (!std::ranges::all_of(pairs, [&](const Pair& pair) { return pair.seeds.contains(seed); }))
      continue;
    std::vector<double> of_references, of_others;
    for (const Pair& pair : pairs) {
      of_references.push_back(pair.reference->runs.at(seed).loss);
      of_others.push_back(pair.other->runs.at(seed).loss);
    }
    references.push_back(estimate_of(of_references).mean);
    others.push_back(estimate_of(of_others).mean);
  }
  difference.seeds = std::ssize(others);
  if (difference.seeds == 1) difference.test.difference = others[0] - references[0];
  if (difference.seeds > 1) difference.test = paired_tests({references}, {others}).front();
  return difference;
}

}  // namespace

std::string LossDifference::interval() const {
  if (!(test.margin > 0)) return "-";
  return interval_text({.value = test.difference, .margin = test.margin}, decimals_of(test.margin));
}

std::string LossDifference::value() const {
  return seeds == 0 ? "-" : fmt::format("{:+.{}f}", test.difference, decimals_of(test.margin));
}

LossDifference difference_from(const Contestant& reference, const Contestant& other) {
  const Pair pair{&reference, &other, common_seeds(reference, other)};
  return mean_difference({pair});
}

std::vector<KeyEffect> effects_of(const SearchResult& result) {
  const std::vector<Values> all = values_of(result);
  std::vector<KeyEffect> effects;
  for (const auto& [key, base_value] : all.front()) {
    const std::vector<std::string> values = ordered_values(all, key);
    for (auto value = values.begin() + 1; value != values.end(); ++value) {
      KeyEffect effect{.key = key, .value = *value, .reference = values.front()};
      effect.difference = mean_difference(pairs_of(result, all, effect));
      effects.push_back(std::move(effect));
    }
  }
  return effects;
}

}  // namespace tapestry
