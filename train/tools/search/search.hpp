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
  std::string parameters{};  // checksum of the parameters at its last step
  std::string failure{};     // why it diverged, or lacked memory; empty if it did not
  double elapsed_s = 0;
};

// A candidate during a search, with its runs by seed.
struct Contestant {
  Candidate candidate;
  std::map<std::int64_t, SearchRun> runs{};
  std::string dropped{};  // why it was dropped; empty if it is still open

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

// The result of a search, or what is known of a search that has not ended.
struct SearchResult {
  std::vector<Contestant> contestants{};  // the base first
  // The base unless the final test found a candidate better; nothing if all of them failed, or if
  // the search has not ended.
  std::optional<std::size_t> winner = 0;
  std::string conclusion{};            // one sentence
  std::optional<PairedTest> judged{};  // final test on new seeds, of `metric`
  std::string metric{};
  bool has_ended = true;
};

// What the runs of candidates cost. A failed run counts with the steps of its budget.
struct SearchCost {
  std::int64_t runs = 0, failed = 0, steps = 0, completed_steps = 0;
  double elapsed_s = 0, completed_s = 0;  // time of all runs, and of those that did not fail
};
SearchCost cost_of(std::span<const Contestant> contestants);

// The work of a search. It is known in advance only within limits.
struct SearchSize {
  std::int64_t candidates = 0;  // without the base
  std::int64_t least_runs = 0, most_runs = 0;
  std::int64_t least_steps = 0, most_steps = 0;
};
// Throws InputError if search.total_steps is less than the first runs and the final test need, and
// for budgets that exclude each other.
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
std::vector<PairedTest> paired_tests(const std::vector<std::vector<double>>& firsts,
                                     const std::vector<std::vector<double>>& others);

// Returns the tests of `others` against `best` over the seeds that both have, as paired_tests()
// does.
std::vector<PairedTest> tests_against(const Contestant& best,
                                      const std::vector<const Contestant*>& others);

// Returns the outcome of a candidate that is not dropped, and so not significantly worse than the
// one with the lowest mean loss: "not decided with 2 seeds (p = 0.18); --seeds 5".
std::string open_outcome(const std::vector<Contestant>& all, const Contestant& one);

// Returns the outcome of a contestant: "winner", "worse than base", "not decided yet".
std::string outcome_of(const SearchResult& result, std::size_t contestant);

// Returns the sentence on the final test of the best candidate on `seeds` new seeds.
std::string conclusion_of(const Contestant& best, const Contestant& base,
                          const SearchResult& result, std::int64_t seeds);

// Return the result as lines for a terminal, and as a JSON object.
std::string show(const SearchResult& result);
JsonValue json_of(const SearchResult& result);

}  // namespace tapestry
