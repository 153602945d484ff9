#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
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

std::string Contestant::tried_before() const {
  if (runs.empty() || runs.begin()->second.tried_before.empty()) return "";
  return "tried before: " + runs.begin()->second.tried_before;
}

double Contestant::mean_loss() const {
  std::vector<double> losses;
  for (const auto& [seed, run] : runs)
    if (std::ssize(losses) < chosen_on) losses.push_back(run.loss);
  return losses.empty() ? 0 : estimate_of(losses).mean;
}

std::vector<PairedTest> paired_tests(const std::vector<std::vector<double>>& firsts,
                                     const std::vector<std::vector<double>>& others,
                                     std::int64_t interim_tests) {
  const auto repeated = static_cast<double>(interim_tests);
  std::vector<double> p;
  for (std::size_t i = 0; i < firsts.size(); ++i)
    p.push_back(std::min(1.0, repeated * paired_p(firsts[i], others[i])));
  const std::vector<HolmTest> corrected = holm(p);
  std::vector<PairedTest> tests(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    if (firsts[i].size() < 2) continue;
    const double level = corrected[i].level / repeated;
    const Confidence found = paired_difference(firsts[i], others[i], 1 - level);
    tests[i] = {.difference = found.value,
                .margin = found.margin,
                .adjusted_p = corrected[i].adjusted_p,
                .level = level,
                .is_significant = corrected[i].is_rejected};
  }
  return tests;
}

std::vector<PairedTest> tests_against(const Contestant& best,
                                      const std::vector<const Contestant*>& others,
                                      std::int64_t interim_tests) {
  std::vector<std::vector<double>> firsts, seconds;
  for (const Contestant* other : others) {
    firsts.emplace_back(), seconds.emplace_back();
    for (const auto& [seed, run] : other->runs)
      if (const auto paired = best.runs.find(seed); paired != best.runs.end()) {
        firsts.back().push_back(paired->second.loss);
        seconds.back().push_back(run.loss);
      }
  }
  return paired_tests(firsts, seconds, interim_tests);
}

std::size_t best_open(const std::vector<Contestant>& all) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].dropped.empty() &&
        (!all[best].dropped.empty() || all[i].mean_loss() < all[best].mean_loss()))
      best = i;
  return best;
}

std::map<std::size_t, PairedTest> worse_ones(const std::vector<Contestant>& all,
                                             std::int64_t interim_tests) {
  const std::size_t best = best_open(all);
  std::vector<std::size_t> tested;
  std::vector<const Contestant*> others;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != best && all[i].dropped.empty()) tested.push_back(i), others.push_back(&all[i]);
  const std::vector<PairedTest> tests = tests_against(all[best], others, interim_tests);
  std::map<std::size_t, PairedTest> worse;
  for (std::size_t i = 0; i < tests.size(); ++i)
    if (tests[i].is_significant) worse[tested[i]] = tests[i];
  return worse;
}

std::optional<ValidationLooks> validation_looks(const SearchResult& result) {
  ValidationLooks all{};
  for (const Contestant& one : result.contestants)
    for (const auto& [seed, run] : one.runs) {
      if (run.failure.empty() && run.evaluations == 0) return std::nullopt;
      all.looks += run.evaluations;
      all.examples = std::max(all.examples, run.validation_examples);
    }
  return all;
}

std::string chosen_after(const SearchResult& result) {
  const std::optional<ValidationLooks> all = validation_looks(result);
  if (!all || !result.winner) return "";
  return fmt::format("chosen after {} at the validation split ({})", counted(all->looks, "look"),
                     counted(all->examples, "example"));
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

std::string open_outcome(const std::vector<Contestant>& all, const Contestant& one,
                         std::int64_t interim_tests) {
  std::vector<const Contestant*> open;
  for (const Contestant& other : all)
    if (other.dropped.empty()) open.push_back(&other);
  const auto best = std::ranges::min_element(
      open, {}, [](const Contestant* other) { return other->mean_loss(); });
  if (*best == &one) return "lowest mean loss";
  const Contestant& lowest = **best;
  open.erase(best);
  const PairedTest test =
      tests_against(lowest, open, interim_tests)[std::ranges::find(open, &one) - open.begin()];
  if (test.margin == 0 && test.difference != 0)
    return fmt::format("its loss differs from the lowest by {}", no_spread(test));
  if (is_undecided(test, one.chosen_on)) return undecided(one.chosen_on, test.adjusted_p);
  return "no significant difference from the lowest mean loss";
}

std::string conclusion_of(const FalseWinners& found) {
  const Interval rate = binomial_interval(found.found, found.tests);
  return fmt::format(
      "{} of {} of the base against itself found a false winner (95 % CI of the rate: {:.2g} to "
      "{:.2g})",
      found.found, counted(found.tests, "search", "searches"), rate.low, rate.high);
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
  return open_outcome(result.contestants, one, result.interim_tests);
}

std::string show(const SearchResult& result) {
  std::string text = fmt::format("\n{:<14} {:>5} {:>10}  {}\n", "candidate", "seeds", "mean loss",
                                 "settings: outcome");
  for (std::size_t i = 0; i < result.contestants.size(); ++i) {
    const Contestant& one = result.contestants[i];
    text +=
        fmt::format("{:<14} {:>5} {:>10}  {}{}{}\n", one.candidate.name, one.chosen_on,
                    one.has_lost() ? "-" : fmt::format("{:.4f}", one.mean_loss()),
                    one.candidate.settings.empty()
                        ? ""
                        : printable(fmt::format("{}: ", fmt::join(one.candidate.settings, " "))),
                    printable(outcome_of(result, i)),
                    one.tried_before().empty() ? "" : "; " + printable(one.tried_before()));
  }
  text += printable(result.conclusion) + "\n";
  if (const std::string looks = chosen_after(result); !looks.empty())
    text += fmt::format("{}: {}\n", result.contestants[*result.winner].candidate.name, looks);
  return text;
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
    if (const std::string tried = one.tried_before(); !tried.empty())
      object["candidates"].back()["tried_before"] = one.runs.begin()->second.tried_before;
  }
  if (const auto all = validation_looks(result)) {
    object["validation_looks"] = all->looks;
    object["validation_examples"] = all->examples;
  }
  if (result.aa) {
    const Interval rate = binomial_interval(result.aa->found, result.aa->tests);
    object["aa"] = {{"tests", result.aa->tests},
                    {"false_winners", result.aa->found},
                    {"low", rate.low},
                    {"high", rate.high}};
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
