#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "data/text/printable.hpp"
#include "train/measure/statistics.hpp"
#include "train/tools/search/search.hpp"

namespace tapestry {

bool is_undecided(const PairedTest& test, std::int64_t seeds) {
  return !test.is_significant && test.margin > 0 && seeds < enough_seeds;
}

std::string Contestant::failure() const {
  const auto failed =
      std::ranges::find_if(runs, [](const auto& run) { return !run.second.failure.empty(); });
  return failed == runs.end() ? "" : failed->second.failure;
}

double Contestant::mean_loss() const {
  std::vector<double> losses;
  for (const auto& [seed, run] : runs)
    if (std::ssize(losses) < chosen_on) losses.push_back(run.loss);
  return losses.empty() ? 0 : estimate_of(losses).mean;
}

std::vector<PairedTest> paired_tests(const std::vector<std::vector<double>>& firsts,
                                     const std::vector<std::vector<double>>& others) {
  std::vector<double> p;
  for (std::size_t i = 0; i < firsts.size(); ++i) p.push_back(paired_p(firsts[i], others[i]));
  const std::vector<HolmTest> corrected = holm(p);
  std::vector<PairedTest> tests(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    if (firsts[i].size() < 2) continue;
    const Confidence found = paired_difference(firsts[i], others[i], 1 - corrected[i].level);
    tests[i] = {.difference = found.value,
                .margin = found.margin,
                .adjusted_p = corrected[i].adjusted_p,
                .level = corrected[i].level,
                .is_significant = corrected[i].is_rejected};
  }
  return tests;
}

std::vector<PairedTest> tests_against(const Contestant& best,
                                      const std::vector<const Contestant*>& others) {
  std::vector<std::vector<double>> firsts, seconds;
  for (const Contestant* other : others) {
    firsts.emplace_back(), seconds.emplace_back();
    for (const auto& [seed, run] : other->runs)
      if (const auto paired = best.runs.find(seed); paired != best.runs.end()) {
        firsts.back().push_back(paired->second.loss);
        seconds.back().push_back(run.loss);
      }
  }
  return paired_tests(firsts, seconds);
}

SearchCost cost_of(std::span<const Contestant> contestants) {
  SearchCost cost;
  for (const Contestant& one : contestants)
    for (const auto& [seed, run] : one.runs) {
      ++cost.runs;
      cost.steps += run.steps;
      cost.elapsed_s += run.elapsed_s;
      if (!run.failure.empty()) {
        ++cost.failed;
        continue;
      }
      cost.completed_steps += run.steps;
      cost.completed_s += run.elapsed_s;
    }
  return cost;
}

namespace {

// Returns the difference of pairs that all have the same.
std::string no_spread(const PairedTest& test) {
  return fmt::format("{:.4g} on each: no test, because the seeds have no spread", test.difference);
}

}  // namespace

std::string open_outcome(const std::vector<Contestant>& all, const Contestant& one) {
  std::vector<const Contestant*> open;
  for (const Contestant& other : all)
    if (other.dropped.empty()) open.push_back(&other);
  const auto best = std::ranges::min_element(
      open, {}, [](const Contestant* other) { return other->mean_loss(); });
  if (*best == &one) return "lowest mean loss";
  const Contestant& lowest = **best;
  open.erase(best);
  const PairedTest test = tests_against(lowest, open)[std::ranges::find(open, &one) - open.begin()];
  if (test.margin == 0 && test.difference != 0)
    return fmt::format("its loss differs from the lowest by {}", no_spread(test));
  if (is_undecided(test, one.chosen_on)) return undecided(one.chosen_on, test.adjusted_p);
  return "no significant difference from the lowest mean loss";
}

std::string conclusion_of(const Contestant& best, const Contestant& base,
                          const SearchResult& result, std::int64_t seeds) {
  const std::string& name = best.candidate.name;
  if (best.has_failed())
    return fmt::format(
        "no candidate is significantly better than the base: {} was best, but on new seeds it {}",
        name, best.failure());
  if (!result.judged)
    return fmt::format(
        "{} is better than the base: it completed its runs on {} new seeds, but the base {}", name,
        seeds, base.failure());
  const PairedTest& test = *result.judged;
  const std::string interval =
      fmt::format("{:.4g} to {:.4g}", test.difference - test.margin, test.difference + test.margin);
  if (!test.is_significant)
    return fmt::format(
        "no candidate is significantly better than the base: {} was best, but its {} on {} new "
        "seeds differs by {}{}",
        name, result.metric, seeds, test.margin > 0 ? interval + " (95 % CI)" : no_spread(test),
        is_undecided(test, seeds) ? ": " + undecided(seeds, test.adjusted_p) : "");
  const bool is_better = test.difference < 0;
  return fmt::format(
      "{} is better than {}: {} is lower by {:.4g} on {} new seeds (95 % CI of the difference: {})",
      is_better ? name : "the base", is_better ? "the base" : name, result.metric,
      std::abs(test.difference), seeds, interval);
}

std::string outcome_of(const SearchResult& result, std::size_t i) {
  const Contestant& one = result.contestants[i];
  if (i == result.winner) return i == 0 ? "kept" : "winner";
  if (!one.dropped.empty()) return one.dropped;
  if (!result.has_ended) return "not decided yet";
  return open_outcome(result.contestants, one);
}

std::string show(const SearchResult& result) {
  std::string text = fmt::format("\n{:<14} {:>5} {:>10}  {}\n", "candidate", "seeds", "mean loss",
                                 "settings: outcome");
  for (std::size_t i = 0; i < result.contestants.size(); ++i) {
    const Contestant& one = result.contestants[i];
    text +=
        fmt::format("{:<14} {:>5} {:>10}  {}{}\n", one.candidate.name, one.chosen_on,
                    one.has_lost() ? "-" : fmt::format("{:.4f}", one.mean_loss()),
                    one.candidate.settings.empty()
                        ? ""
                        : printable(fmt::format("{}: ", fmt::join(one.candidate.settings, " "))),
                    printable(outcome_of(result, i)));
  }
  return text + fmt::format("{}\n", printable(result.conclusion));
}

JsonValue json_of(const SearchResult& result) {
  const SearchCost cost = cost_of(result.contestants);
  JsonValue object{
      {"winner",
       result.winner ? JsonValue(result.contestants[*result.winner].candidate.name) : JsonValue()},
      {"differs_from_base", result.winner.value_or(0) != 0},
      {"conclusion", result.conclusion},
      {"steps", cost.steps},
      {"elapsed_s", cost.elapsed_s},
      {"candidates", JsonValue::array()}};
  for (std::size_t i = 0; i < result.contestants.size(); ++i) {
    const Contestant& one = result.contestants[i];
    object["candidates"].push_back(
        {{"name", one.candidate.name},
         {"settings", one.candidate.settings},
         {"seeds", one.chosen_on},
         {"mean_loss", one.has_lost() ? JsonValue() : JsonValue(one.mean_loss())},
         {"outcome", outcome_of(result, i)}});
  }
  if (result.judged)
    object["judged"] = {{"metric", result.metric},
                        {"difference", result.judged->difference},
                        {"low", result.judged->difference - result.judged->margin},
                        {"high", result.judged->difference + result.judged->margin},
                        {"p", result.judged->adjusted_p}};
  return object;
}

}  // namespace tapestry
