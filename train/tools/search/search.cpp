#include "train/tools/search/search.hpp"

#include <fmt/ranges.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

#include "autograd/buffer_pool.hpp"
#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/search/ledger.hpp"
#include "train/tools/search/tried_before.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/stop_at_signals.hpp"
#include "train/trainer/training.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

// Ends a training with the first evaluation after a number of minutes.
class EndsAfterMinutes final : public Callback {
 public:
  explicit EndsAfterMinutes(double minutes) : minutes_(minutes) {}
  void on_metrics(const MetricsLine& line) override {
    if (line.split == "val") is_over_ |= minutes_ > 0 && line.elapsed_s >= 60 * minutes_;
  }
  bool ends_training() const override { return is_over_; }

 private:
  double minutes_;
  bool is_over_ = false;
};

// Thrown within this file when a signal stopped a training, and at the end of a replayed ledger.
struct SearchStopped {};

// The evaluations of a run on the validation split.
struct Evaluations {
  std::int64_t count = 0;
  std::string parameters{};  // checksum of the parameters at the last one
};

Evaluations evaluations_of(const Run& run) {
  Evaluations evaluations;
  for (LineReader line(run.metrics()); line.next();)
    if (const Json entry = line.metrics(); is_split(entry, "val")) {
      ++evaluations.count;
      evaluations.parameters = entry.value("parameters_xxh3", "");
    }
  return evaluations;
}

// Returns whether two candidates computed the same bits in all runs.
bool are_identical(const Contestant& a, const Contestant& b) {
  return std::ranges::equal(a.runs, b.runs, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.steps == other.second.steps &&
           !one.second.parameters.empty() && one.second.parameters == other.second.parameters;
  });
}

// A search that is trained, or replayed from its ledger.
class Searching {
 public:
  // Trains with the lock of the experiment; without it, only replays.
  Searching(const Run& experiment, RunLock* lock, std::vector<Candidate> candidates, bool quiet)
      : experiment_(experiment),
        lock_(lock),
        ledger_(experiment, lock),
        size_(size_of(candidates)),
        quiet_(quiet),
        base_(candidates.front().config),
        options_(search_settings.of(base_)),
        interim_tests_(ledger_.interim_tests(options_.seeds - first_seeds + 1)),
        first_seed_(base_[key::seed]) {
    for (Candidate& candidate : candidates) all_.push_back({.candidate = std::move(candidate)});
    if (lock_ == nullptr) return;
    signals_.emplace(stop_);
    expect_same_data(folder_of(all_[0], first_seed_), all_[0].candidate.initial, base_);
    if (!options_.is_aa_test()) find_tried_before();
  }

  SearchResult result() {
    SearchResult result = options_.is_aa_test() ? tested() : searched();
    ledger_.expect_end();
    if (result.winner && lock_ != nullptr)
      write_winner(result.contestants[*result.winner].candidate.config);
    return result;
  }

  // Returns what the ledger records.
  SearchResult recorded() try { return result(); } catch (const SearchStopped&) {
    return stopped(std::move(all_));
  }

 private:
  static SearchResult stopped(std::vector<Contestant> contestants) {
    return {.contestants = std::move(contestants), .winner = std::nullopt, .has_ended = false};
  }

  void find_tried_before() {
    const std::map<std::string, std::string> results = results_beside(experiment_);
    for (Contestant& one : all_) {
      const auto found = results.find(one.candidate.effective);
      if (found == results.end()) continue;
      one.candidate.tried_before = found->second;
      if (!quiet_ && ledger_.is_empty())
        say("{}: tried before: {}\n", one.candidate.name, found->second);
    }
  }

  SearchResult searched() {
    if (options_.method == SearchMethod::halving) halve();
    return compared();
  }

  // Compares the base with itself in a search for each candidate.
  SearchResult tested() {
    SearchResult all{.contestants = std::move(all_), .winner = std::nullopt};
    FalseWinners found;
    Contestant& base = all.contestants[0];
    for (std::size_t test = 1; test < all.contestants.size(); ++test) {
      all_ = {{.candidate = base.candidate}, {.candidate = all.contestants[test].candidate}};
      first_seed_ = base_seed_of(base_, static_cast<std::int64_t>(test));
      all_[0].candidate.config.set(key::seed, first_seed_);
      const std::optional<SearchResult> one = recorded_comparison();
      if (one) {
        all_ = one->contestants;
        all_[1].dropped = one->winner == 1 ? "false winner" : outcome_of(*one, 1);
        found.found += one->winner == 1;
        ++found.tests;
      }
      base.runs.insert(all_[0].runs.begin(), all_[0].runs.end());
      base.chosen_on = std::ssize(base.runs);
      all.contestants[test] = std::move(all_[1]);
      if (!one) return stopped(std::move(all.contestants));
    }
    base.dropped = "the base of each test";
    all_ = std::move(all.contestants);  // for recorded(), if the ledger ends here
    record({{"decision", "aa"}, {"tests", found.tests}, {"false_winners", found.found}}, {});
    all.contestants = std::move(all_);
    all.conclusion = conclusion_of(found);
    all.aa = found;
    return all;
  }

  // Returns compared(), or nothing at the end of a replayed ledger.
  std::optional<SearchResult> recorded_comparison() try {
    return compared();
  } catch (const SearchStopped&) {
    if (lock_ != nullptr) throw;
    return std::nullopt;
  }

  // Trains the open candidates, drops worse ones, and tests the best one against the base.
  SearchResult compared() {
    add_seeds();
    SearchResult result{.interim_tests = interim_tests_};
    const std::size_t best = best_open(all_);
    const bool is_told = best != 0 && !all_[0].dropped.empty();
    record({{"decision", "best"}, {"candidate", all_[best].candidate.name}}, {});
    if (is_told && !all_[0].has_failed())
      judge(best, result);
    else
      conclude(best, is_told, result);
    result.contestants = std::move(all_);
    return result;
  }

  void write_winner(Config config) {
    config.reset("search.");
    lock_->replace(experiment_.folder() + "/winner.toml", {config.toml_with_origins()});
  }

  std::int64_t steps() const { return base_[key::steps]; }

  // Appends a decision to the ledger, or checks that it is the recorded one.
  void record(Json decision, const Json& numbers) {
    if (ledger_.recorded(decision)) return;
    if (lock_ == nullptr) throw SearchStopped();
    if (!numbers.is_null()) decision.update(numbers);
    ledger_.append(decision);
  }

  // Returns the seed of a candidate's run that is compared with the base's run of a seed. They are
  // equal, but in an A/A test.
  std::int64_t own_seed(const Contestant& one, std::int64_t seed) const {
    return seed - first_seed_ + one.candidate.config[key::seed];
  }

  // Trains a seed of a candidate up to a step, or takes the result from the ledger.
  void run(Contestant& one, std::int64_t seed, std::int64_t steps) {
    const std::int64_t own = own_seed(one, seed);
    const Json identity{{"run", fmt::format("{}/seed-{}", one.candidate.name, own)},
                        {"settings", one.candidate.settings},
                        {"budget", steps}};
    const std::optional<Json> line = ledger_.recorded(identity);
    SearchRun run = line ? ledger_.recorded_run() : train(one, seed, steps);
    if (!line) {
      run.validation_examples = one.candidate.validation_examples;
      run.tried_before = one.candidate.tried_before;
      if (steps == this->steps() && !options_.is_aa_test()) run.effective = one.candidate.effective;
      Json added = identity;
      added.update(to_json(run));
      added["interim_tests"] = interim_tests_;
      ledger_.append(added);
    }
    if (!quiet_ && !line) {
      say("{}/seed-{}: {}  ({:.1f} s)\n", one.candidate.name, own,
          run.failure.empty() ? fmt::format("step {}, best loss {:.4f}", run.steps, run.loss)
                              : printable(run.failure),
          run.elapsed_s);
      std::fflush(stdout);
    }
    run.budget = steps;
    one.runs[seed] = std::move(run);
  }

  Run folder_of(const Contestant& one, std::int64_t seed) const {
    return Run(fmt::format("{}/{}/seed-{}", experiment_.folder(), one.candidate.name, seed));
  }

  // Returns a run whose data those of this run must equal: one with the same seed, which splits
  // some data, and the same settings of the data. Nothing if there is none yet.
  std::optional<Run> run_of_same_data(const Contestant& one, std::int64_t seed) const {
    const ConfigSettings settings = one.candidate.config.settings_that_count();
    for (const Contestant& other : all_) {
      // A failed run may have no record of its data.
      if (!other.runs.contains(seed) || !other.runs.at(seed).failure.empty()) continue;
      const ConfigSettings others = other.candidate.config.settings_that_count();
      if (std::ranges::none_of(names_that_differ({&settings, &others}), [](const auto& name) {
            return name.starts_with("data.") || name == "model.context" || name == key::seed.name;
          }))
        return folder_of(other, own_seed(other, seed));
    }
    return std::nullopt;
  }

  SearchRun train(const Contestant& one, std::int64_t seed, std::int64_t steps) {
    if (lock_ == nullptr) throw SearchStopped();
    lock_->expect_in_place();
    Config config = one.candidate.config;
    config.reset("search.");
    config.set(key::seed, own_seed(one, seed));
    if (steps < config[key::steps] && config.has(key::decay_steps.name) &&
        config[key::decay_steps] == 0)
      config.set(key::decay_steps, config[key::steps]);
    config.set(key::steps, steps);
    const Run run = folder_of(one, config[key::seed]);
    const std::optional<Run> of_same_data = run_of_same_data(one, seed);
    if (!of_same_data && !ledger_.is_empty())  // a new seed: the data may have changed meanwhile
      expect_same_data(folder_of(all_[0], base_[key::seed]), initial_state_of(base_), base_);
    use_machine_as(config);
    EndsAfterMinutes limit(options_.minutes);
    const TrainIntoOptions options{.resume = std::filesystem::exists(run.folder()),
                                   .quiet = true,
                                   .fits_baselines = false,
                                   .callbacks = {&limit},
                                   .same_data_as = of_same_data,
                                   .stop = &stop_,
                                   .started_s = started_s_};
    const double begin_s = now_s();
    const double before_s = one.runs.contains(seed) ? one.runs.at(seed).elapsed_s : 0;
    const auto failed = [&](const std::string& why) {
      constexpr std::size_t most_bytes = 1000;
      return SearchRun{.steps = steps,
                       .evaluations = evaluations_of(run).count,
                       .failure = "failed: " + why.substr(0, most_bytes),
                       .elapsed_s = before_s + now_s() - begin_s};
    };
    try {
      const FinishedTraining training = train_into(run, config, options);
      if (training.metrics.empty()) throw SearchStopped();
      const auto test = training.metrics.find("test_loss");
      const Evaluations evaluations = evaluations_of(run);
      return {
          .steps = training.state.step,
          .loss = training.state.best_loss,
          .test_loss = test == training.metrics.end() ? std::nullopt : std::optional(test->second),
          .evaluations = evaluations.count,
          .parameters = evaluations.parameters,
          .elapsed_s = training.state.elapsed_s};
    } catch (const Diverged& error) {
      const std::string message = error.what();  // its last part names the checkpoints
      return failed(message.substr(0, message.rfind("; ")));
    } catch (const ModelTooLarge& error) {
      return failed(error.what());
    } catch (const OutOfMemory& error) {
      return failed(error.what());
    } catch (const std::bad_alloc&) {
      return failed("out of memory");
    } catch (const InputError&) {
      if (ledger_.is_empty() && !std::filesystem::exists(run.folder())) lock_->remove_placed();
      throw;
    }
  }

  void drop(Contestant& one, const std::string& reason, const Json& numbers = {}) {
    one.dropped = reason;
    record({{"decision", "drop"}, {"candidate", one.candidate.name}, {"reason", reason}}, numbers);
  }

  std::vector<Contestant*> open() {
    std::vector<Contestant*> open;
    for (Contestant& one : all_)
      if (one.dropped.empty()) open.push_back(&one);
    return open;
  }

  void run_open(std::int64_t seeds, std::int64_t steps) {
    for (Contestant* one : open()) {
      for (std::int64_t i = 0; i < seeds; ++i)
        if (const std::int64_t seed = first_seed_ + i;
            !one->runs.contains(seed) || one->runs[seed].budget < steps)
          if (!one->has_failed()) run(*one, seed, steps);
      one->chosen_on = seeds;
    }
    for (Contestant* one : open())
      if (one->has_failed()) drop(*one, one->failure());
  }

  // Trains the rounds before the last one, and keeps a third of the candidates in each. The base is
  // always kept.
  void halve() {
    const std::vector<std::int64_t> rounds = rounds_of(size_.candidates, steps());
    for (std::size_t round = 0; round + 1 < rounds.size(); ++round) {
      run_open(first_seeds, rounds[round]);
      std::vector<Contestant*> ranked = open();
      std::erase(ranked, &all_[0]);
      std::ranges::stable_sort(ranked, {}, &Contestant::mean_loss);
      const std::int64_t kept = std::max<std::int64_t>(1, std::ssize(ranked) / halving_factor);
      for (std::int64_t i = kept; i < std::ssize(ranked); ++i)
        drop(*ranked[i], fmt::format("halving: rank {} of {} after {} steps", i + 1,
                                     std::ssize(ranked), rounds[round]));
    }
  }

  // Trains the open candidates with more and more seeds, until one is left, or the budget is used.
  void add_seeds() {
    for (std::int64_t seeds = first_seeds; seeds <= options_.seeds; ++seeds) {
      if (seeds > first_seeds && !is_affordable(std::ssize(open()))) {
        record({{"decision", "budget"}, {"seeds", seeds - 1}}, {});
        return;
      }
      run_open(seeds, steps());
      drop_identical();
      drop_worse();
      if (open().size() <= 1) return;
    }
  }

  // Returns whether the budget of the search allows these runs and the final test.
  bool is_affordable(std::int64_t runs) const {
    const SearchCost cost = cost_of(all_);
    const std::int64_t steps_after = cost.steps + (runs + 2 * options_.seeds) * steps();
    const std::int64_t total_steps = options_.total_steps;
    const double total_minutes = options_.total_minutes;
    const double step_s =
        cost.completed_s / static_cast<double>(std::max<std::int64_t>(1, cost.completed_steps));
    return (total_steps == 0 || steps_after <= total_steps) &&
           (total_minutes == 0 || static_cast<double>(steps_after) * step_s <= 60 * total_minutes);
  }

  void drop_identical() {
    const std::vector<Contestant*> candidates = open();
    for (std::size_t i = 0; i < candidates.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (candidates[i]->dropped.empty() && candidates[j]->dropped.empty() &&
            are_identical(*candidates[i], *candidates[j]))
          drop(*candidates[i], "identical to " + candidates[j]->candidate.name);
  }

  void drop_worse() {
    const std::string reason = "worse than " + all_[best_open(all_)].candidate.name;
    for (const auto& [worse, test] : worse_ones(all_, interim_tests_))
      drop(all_[worse], reason,
           {{"difference", test.difference},
            {"low", test.difference - test.margin},
            {"high", test.difference + test.margin},
            {"level", 1 - test.level},
            {"p", test.adjusted_p}});
  }

  // Compares the best candidate with the base on new seeds, which took part in no decision: the
  // seeds that chose the candidate favor it, also on the test split. Ends when the candidate fails.
  void judge(std::size_t best, SearchResult& result) {
    Contestant &base = all_[0], &one = all_[best];
    std::vector<double> of_base, of_best;
    const auto judged = [&](Contestant& contestant, std::int64_t seed) {
      run(contestant, seed, steps());
      const SearchRun& found = contestant.runs[seed];
      result.metric = found.test_loss ? "test_loss" : "loss";
      return found.test_loss ? *found.test_loss : found.loss;
    };
    const std::int64_t first = first_seed_ + options_.seeds;
    for (std::int64_t seed = first; seed < first + options_.seeds && !one.has_failed(); ++seed) {
      if (!base.has_failed()) of_base.push_back(judged(base, seed));
      of_best.push_back(judged(one, seed));
    }
    if (!one.has_failed() && !base.has_failed())
      result.judged = paired_tests({of_base}, {of_best}).front();
    const bool is_lower = result.judged && result.judged->difference < 0;
    if (!one.has_failed() && (!result.judged || (result.judged->is_significant && is_lower)))
      result.winner = best;
    else if (result.judged && is_undecided(*result.judged, options_.seeds))
      one.dropped = "final test: " + undecided(options_.seeds, result.judged->adjusted_p);
    else
      one.dropped = "not significantly better on new seeds";
    result.conclusion = conclusion_of(one, base, result, options_.seeds);
    record({{"decision", "winner"},
            {"candidate", all_[*result.winner].candidate.name},
            {"metric", result.metric}},
           result.judged ? Json{{"difference", result.judged->difference},
                                {"low", result.judged->difference - result.judged->margin},
                                {"high", result.judged->difference + result.judged->margin},
                                {"p", result.judged->adjusted_p}}
                         : Json::object());
  }

  // Sets the winner if there is nothing to test on new seeds.
  void conclude(std::size_t best, bool is_told, SearchResult& result) {
    if (is_told) {
      result.winner = best;
      result.conclusion = fmt::format("{} is best; the base {}", all_[best].candidate.name,
                                      printable(all_[0].dropped));
    } else if (open().empty() && all_[0].has_failed()) {
      result.winner.reset();
      result.conclusion =
          fmt::format("no candidate is left: the base and every candidate{} failed",
                      std::ranges::all_of(all_, &Contestant::has_failed) ? "" : " that was kept");
    } else {
      result.conclusion = "no candidate is significantly better than the base";
      if (best != 0 && all_[0].dropped.empty())
        result.conclusion +=
            fmt::format(": {} has the lowest mean loss; base: {}", all_[best].candidate.name,
                        open_outcome(all_, all_[0], interim_tests_));
    }
    record({{"decision", "winner"},
            {"candidate", result.winner ? all_[*result.winner].candidate.name : ""}},
           {});
  }

  Run experiment_;
  RunLock* lock_;  // nullptr: nothing is trained or written
  Ledger ledger_;
  SearchSize size_;
  bool quiet_;
  Config base_;
  SearchOptions options_;
  std::int64_t interim_tests_;  // planned number; 1 if an earlier version began the search
  std::int64_t first_seed_;     // of the base, in this test of an A/A test
  std::vector<Contestant> all_;
  double started_s_ = now_s();
  std::atomic<bool> stop_ = false;  // set by a signal, or by the time limit of a training
  std::optional<StopAtSignals> signals_{};
};

}  // namespace

std::optional<SearchResult> search(RunLock& lock, std::vector<Candidate> candidates,
                                   bool quiet) try {
  return Searching(lock.run(), &lock, std::move(candidates), quiet).result();
} catch (const SearchStopped&) {
  return std::nullopt;
}

SearchResult recorded_search(const Run& experiment) {
  expect_input(std::filesystem::exists(experiment.config()),
               "{}: has no config.toml of the search that wrote ledger.jsonl; restore this file",
               printable(experiment.folder()));
  const auto config_with = [&](const std::vector<std::string>& overrides) {
    return recorded_config(experiment, overrides);
  };
  expect_input(!search_settings.of(config_with({})).vary.empty(),
               "{}: has no search.vary, but the search that wrote ledger.jsonl had one; restore "
               "this file",
               printable(experiment.config()));
  return Searching(experiment, nullptr, make_candidates(config_with, false), true).recorded();
}

}  // namespace tapestry
