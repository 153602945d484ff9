#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/run/run_lock.hpp"
#include "train/tools/search/candidates.hpp"

namespace tapestry {

// The result of a run of a candidate.
struct SearchRun {
  std::int64_t budget = 0;  // steps that it was allowed to take
  std::int64_t steps = 0;   // steps that it took; those of its budget if it failed
  double loss = 0;          // lowest validation loss
  std::optional<double> test_loss{};
  std::int64_t evaluations = 0;          // on the validation split; 0: not recorded
  std::int64_t validation_examples = 0;  // number of those of this split; 0: not recorded
  std::string parameters{};              // checksum of the parameters at its last step
  std::string failure{};                 // why it diverged, or lacked memory; empty if it did not
  double elapsed_s = 0;
  // Members of Candidate; the first only with the full budget of a run.
  std::string effective{}, tried_before{};
};

// A candidate during a search, with its runs by seed.
struct Contestant {
  Candidate candidate;
  std::map<std::int64_t, SearchRun> runs{};
  std::string dropped{};  // why it was dropped; empty if it is still open

  // Returns "tried before: searches/x/base, loss 1.8412", as its first run recorded; or "".
  std::string tried_before() const;
  double mean_loss() const;  // returns the mean over the seeds that chose the winner
  // Returns why a run failed, "failed: step 3: …"; empty if none failed.
  std::string failure() const;
  bool has_failed() const { return !failure().empty(); }
  // Returns whether a failure decided its outcome, so that it has no mean loss.
  bool has_lost() const { return dropped.empty() ? has_failed() : dropped.starts_with("failed"); }
  std::int64_t chosen_on = 0;  // number of these seeds
};

// The difference between two candidates: the mean of `other` minus that of `best` over their common
// seeds, with the confidence interval of Holm's level.
struct PairedTest {
  double difference = 0, margin = 0, adjusted_p = 1, level = 0.05;
  bool is_significant = false;
};

// Returns whether a test is not significant, and these seeds are too few to say more.
bool is_undecided(const PairedTest& test, std::int64_t seeds);

// The result of an A/A test: in how many searches of the base against itself it was called worse.
struct FalseWinners {
  std::int64_t tests = 0, found = 0;
};

// The result of a search, or what is known of a search that has not ended.
struct SearchResult {
  std::vector<Contestant> contestants{};  // the base first
  // The base unless the final test found a candidate better; nothing if all of them failed, or if
  // the search has not ended.
  std::optional<std::size_t> winner = 0;
  std::string conclusion{};            // one sentence
  std::optional<PairedTest> judged{};  // final test on new seeds, of `metric`
  std::string metric{};
  std::int64_t interim_tests = 1;    // planned number of tests that may drop a candidate
  std::optional<FalseWinners> aa{};  // of an A/A test, which has no winner
  bool has_ended = true;
};

// How often the validation split was consulted: the number of evaluations in all runs of a search,
// each of which could become the result of its run. Nothing if a run did not record it.
struct ValidationLooks {
  std::int64_t looks = 0, examples = 0;
};
std::optional<ValidationLooks> validation_looks(const SearchResult& result);
// Returns "chosen after 37 looks at the validation split (1203 examples)"; "" if that is unknown,
// and for an A/A test.
std::string chosen_after(const SearchResult& result);

// What the runs of candidates cost. A failed run counts with the steps of its budget.
struct SearchCost {
  std::int64_t runs = 0, failed = 0, steps = 0, completed_steps = 0;
  double elapsed_s = 0, completed_s = 0;  // time of all runs, and of those that did not fail
};
SearchCost cost_of(std::span<const Contestant> contestants);

inline constexpr std::int64_t first_seeds = 2;  // seeds of every candidate before the first test

// The work of a search. It is known in advance only within limits.
struct SearchSize {
  std::int64_t candidates = 0;  // without the base
  std::int64_t least_runs = 0, most_runs = 0;
  std::int64_t least_steps = 0, most_steps = 0;
};
// Throws InputError if search.total_steps is less than the first runs and the final test need, and
// for budgets that exclude each other. In an A/A test, search.total_steps is that of each search.
SearchSize size_of(const std::vector<Candidate>& candidates);

// Trains the candidates into the locked folder of an experiment, NAME/seed-N for each run, and
// records its ledger.jsonl; runs and decisions that are in the ledger already are not repeated.
// Writes winner.toml, unless the base and the candidates failed. Returns nothing if a signal
// stopped it. Throws as train_into() does, but a candidate that diverges or lacks memory is
// dropped, and for other data than those of the first run; if the first training is refused, the
// files of the experiment are removed.
std::optional<SearchResult> search(RunLock& lock, std::vector<Candidate> candidates, bool quiet);

// Returns what the ledger of an experiment records, without training; the search may be running.
// Throws InputError if the ledger or config.toml is damaged, or of another search.
SearchResult recorded_search(const Run& experiment);

// Returns the tests of pairs of samples, others[i][k] belonging to firsts[i][k], corrected by
// Holm's method for their number. A pair with fewer than 2 values, or without a spread, is not
// significant.
//
// Tests that are repeated after 2, 3, 4, … seeds find a difference of equal candidates more often
// than one test does (Armitage, McPherson and Rowe 1969: with 5 tests at 5 % in 14 % of cases). So
// each has the level 0.05 / `interim_tests` (Bonferroni's method, Dunn 1961): the probability that
// any of them errs is at most 0.05, whatever the correlation of their results, and also if a budget
// ends the search before all of them were made.
std::vector<PairedTest> paired_tests(const std::vector<std::vector<double>>& firsts,
                                     const std::vector<std::vector<double>>& others,
                                     std::int64_t interim_tests = 1);

// Returns the tests of `others` against `best` over the seeds that both have, as paired_tests()
// does.
std::vector<PairedTest> tests_against(const Contestant& best,
                                      const std::vector<const Contestant*>& others,
                                      std::int64_t interim_tests);

// Returns the index of the candidate of the lowest mean loss that is not dropped; that of the base
// if it is among the lowest ones, or if all are dropped.
std::size_t best_open(const std::vector<Contestant>& all);

// Returns the tests of the candidates that are significantly worse than best_open(), by index.
// Dropped ones are not tested. The probability that the tests of a search drop the truly best
// candidate is at most 0.05; the reference is chosen by the same losses, so that one of many equal
// candidates is dropped more often.
std::map<std::size_t, PairedTest> worse_ones(const std::vector<Contestant>& all,
                                             std::int64_t interim_tests);

// Returns the outcome of a candidate that is not dropped, and so not significantly worse than the
// one with the lowest mean loss: "not decided with 2 seeds (p = 0.18); --seeds 5".
std::string open_outcome(const std::vector<Contestant>& all, const Contestant& one,
                         std::int64_t interim_tests);

// Returns the outcome of a contestant: "winner", "worse than base", "not decided yet".
std::string outcome_of(const SearchResult& result, std::size_t contestant);

// Returns the sentence on an A/A test: "1 of 20 searches of the base against itself found a false
// winner (95 % CI of the rate: 0.0013 to 0.25)".
std::string conclusion_of(const FalseWinners& found);

// Returns the sentence on the final test of the best candidate on `seeds` new seeds.
std::string conclusion_of(const Contestant& best, const Contestant& base,
                          const SearchResult& result, std::int64_t seeds);

// Return the result as lines for a terminal, and as a JSON object.
std::string show(const SearchResult& result);
JsonValue json_of(const SearchResult& result);

}  // namespace tapestry
