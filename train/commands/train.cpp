#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <ranges>

#include "autograd/clock.hpp"
#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/training_config.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/distributed/placement.hpp"
#include "train/measure/machine.hpp"
#include "train/run/run_lock.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/stop_at_signals.hpp"
#include "train/trainer/trainer.hpp"
#include "train/trainer/training.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// Prints the expected metric beside the reached one, unless the settings differ from those that the
// expected value belongs to. `written`: the settings of the config without --set and --from.
void compare_with_expected(const Config& config, const ConfigSettings& written,
                           const Metrics& metrics) {
  const std::string& metric = config[key::expected_metric];
  if (metric.empty() || !why_not_expected(config.settings(), written).empty()) return;
  const auto reached = metrics.find(metric);
  if (reached == metrics.end())
    say("expected.metric = \"{}\": the evaluation has no such metric; expected one of {}\n", metric,
        fmt::join(metrics | std::views::keys, ", "));
  else
    say("{}: {:.4f} reached, {:.4f} expected ({})\n", metric, reached->second,
        config[key::expected_value], config[key::expected_source]);
}

// One of several trainings that differ only in their seed, into RUN/seed-N.
struct SeedRun {
  Run run;
  Config config;
  TrainIntoOptions options;
};

// Returns the runs of all seeds. With --resume, existing runs are resumed, or only evaluated if
// they have ended. Throws InputError, before any run starts, if open_run() rejects one of them, if
// the folder contains a run of one seed, or if it contains none of the runs to resume.
std::vector<SeedRun> seed_runs(const Run& runs, const Config& config,
                               const TrainIntoOptions& options, std::int64_t seeds) {
  const std::int64_t first = config[key::seed];
  config.expect(first <= std::numeric_limits<std::int64_t>::max() - seeds, key::seed,
                "must be at most {} with --seeds {}",
                std::numeric_limits<std::int64_t>::max() - seeds, seeds);
  expect_no_search(runs);
  expect_input(!fs::exists(runs.metrics()),
               "{}: already contains a run of one seed; give another --out", runs.folder());
  std::vector<SeedRun> all;
  for (std::int64_t seed = first; seed < first + seeds; ++seed) {
    SeedRun one{Run(fmt::format("{}/seed-{}", runs.folder(), seed)), config, options};
    one.config.set(key::seed, seed);
    one.options.quiet = true;
    one.options.resume = options.resume && fs::exists(one.run.folder());
    open_run(one.run, one.config, one.options.resume);
    all.push_back(std::move(one));
  }
  const bool begun =
      std::ranges::any_of(all, [](const SeedRun& one) { return one.options.resume; });
  expect_input(!options.resume || begun || fs::is_empty(runs.folder()),
               "{}: holds no run with a seed from {} to {}; give the --out that they were trained "
               "into, or leave out --resume",
               runs.folder(), first, first + seeds - 1);
  return all;
}

class Train final : public Command {
 public:
  void declare(Arguments& arguments) override {
    given_.declare(arguments);
    arguments.option("--out", out_, "folder of the run (default: runs/<name>)");
    arguments.flag("--resume", options_.resume,
                   "resume the run from its checkpoint; CONFIG may be the run's folder");
    arguments.option("--seeds", seeds_,
                     "train N runs with consecutive seeds, and print the mean and standard "
                     "deviation (default: one run)",
                     {.low = 1, .high = 1000});
    arguments.flag("--quiet", options_.quiet, "print the result only");
    arguments.flag("--json", json_, "print one JSON object, and everything else to standard error");
    arguments.flag("--profile", options_.profile,
                   "print the time of each op in a step, and write a trace");
  }

  int run() override {
    if (json_) leave_output_to_json();
    std::signal(SIGPIPE, SIG_IGN);  // a closed output does not end the training
    resume_folder();
    Ranks ranks = Ranks::launched();
    return ranks.alone() ? train(ranks) : train_together(ranks);
  }

 private:
  // Sets the config and --out from the run's folder that CONFIG names. Throws InputError without
  // --resume, if the folder does not exist, and if --out is another folder.
  void resume_folder() {
    std::error_code unseen;
    const fs::path given = given_.config;
    if (options_.resume && !fs::exists(given, unseen) && given.has_parent_path() &&
        given.extension() != ".toml")
      throw no_such_run(given_.config);
    if (is_shipped(given_.config) || !fs::is_directory(given, unseen)) return;
    const Run run(different_folders({given_.config}).front());
    expect_no_search(run);
    if (const std::vector<std::string> seeds = seed_folders(run.folder()); !seeds.empty())
      throw InputError(
          fmt::format("{}: contains runs of several seeds; to resume N of them: {} train {} "
                      "--seeds N --out {} --resume",
                      run.folder(), own_program(), shell_word(Run(seeds.front()).config()),
                      shell_word(run.folder())));
    if (!fs::exists(run.config(), unseen)) return;  // the folder is not a run
    expect_input(
        options_.resume,
        "{}: is the folder of a run; add --resume to resume the run, or give {} to start a new one",
        run.folder(), run.config());
    expect_input(out_.empty() || fs::equivalent(out_, run.folder(), unseen),
                 "--out {}: differs from {}, the run to resume; leave out --out", out_,
                 run.folder());
    given_.config = run.config();
    out_ = run.folder();
  }

  // Trains on all ranks. An error of all ranks is printed once, by rank 0; an error of one rank is
  // printed by this rank, which ends the others.
  int train_together(Ranks& ranks) {
    try {
      return train(ranks);
    } catch (const InputError& error) {
      return failed(ranks, error, wrong_input_status);
    } catch (const std::exception& error) {
      return failed(ranks, error, failed_status);
    }
  }

  static int failed(Ranks& ranks, const std::exception& error, int status) {
    if (!ranks.is_agreed()) {
      complain(fmt::format("{}: {}", ranks.name(ranks.rank()), error.what()));
      ranks.abort(status);
    }
    if (ranks.rank() == 0) complain(error.what());
    return status;
  }

  // Returns the config of a new run, or the one to resume `resumed` with.
  Config read_config(int ranks, const Run* resumed = nullptr) const {
    Config config = given_.read({}, resumed);
    check_training_keys(config, ranks);
    if (!options_.resume) expect_known_metric(config);
    return config;
  }

  // Returns the run of one seed of a folder that --seeds made, or else the run of the folder.
  static Run one_run_of(const Run& run) {
    const std::vector<std::string> seeds = seed_folders(run.folder());
    return seeds.empty() ? run : Run(seeds.front());
  }

  // Returns the settings of the config without --set and --from, or those of `config` if the file
  // alone is incomplete.
  ConfigSettings as_written(const Config& config) const try {
    return load_config(given_.config, {}).settings();
  } catch (const InputError&) {
    return config.settings();
  }

  // Returns the run's folder. Without --out it depends on the existing folders, which rank 0 reads.
  std::string folder(const Config& config, Ranks& ranks) const {
    if (!out_.empty()) return out_;
    std::string found;
    ranks.agree("choosing the run folder", [&] {
      if (ranks.rank() == 0) found = Run::default_folder(config[key::name], options_.resume);
    });
    return ranks.gather(found, "the run's folder").front();
  }

  // Uses the configured number of threads, or else the cores of this rank.
  void use_machine(const Config& config, Ranks& ranks) const {
    use_machine_as(config);
    if (ranks.alone()) return;
    const Placement placement = place_threads(ranks);
    if (config[key::threads] == 0 && !std::getenv("OMP_NUM_THREADS"))
      set_num_threads(placement.threads);
    if (!options_.quiet) say("{}\n", placement.summary);
  }

  int train(Ranks& ranks) {
    std::optional<Config> read;
    ranks.agree("reading the config", [&] { read = read_config(ranks.size()); });
    const Run run(folder(*read, ranks));
    if (options_.resume)
      ranks.agree("reading the run's config", [&] {
        const Run resumed = one_run_of(run);
        read = read_config(ranks.size(), &resumed);
      });
    const Config& config = *read;
    for (const std::string& dropped : config.dropped())
      if (!options_.quiet) say("{}\n", dropped);
    use_machine(config, ranks);
    if (seeds_ > 0) return train_seeds(config, run, ranks);
    TrainIntoOptions options = options_;
    options.stops_at_signals = true;
    const FinishedTraining training = train_into(run, config, options, ranks);
    if (json_) print_json(json_of(run, training));
    if (training.metrics.empty()) {
      say("stopped after step {}; to resume: {} train {} --resume\n", training.state.step,
          own_program(), shell_word(run.folder()));
      return interrupted_status;
    }
    say("done after {:.1f} s: {}\n", training.state.elapsed_s,
        show(training.metrics, training.signatures));
    if (!options_.quiet) say("{}", training.compared_with_baselines());
    compare_with_expected(config, as_written(config), training.metrics);
    if (!options_.quiet && spec_of(config).samples)
      say("{} sample {} prints samples of the model\n", own_program(), shell_word(run.folder()));
    return 0;
  }

  // Trains one run for each seed, into RUN/seed-N. Returns the exit status.
  int train_seeds(const Config& config, const Run& runs, Ranks& ranks) const {
    std::optional<RunLock> lock;
    ranks.agree("locking the runs", [&] {
      if (ranks.rank() == 0)
        lock.emplace(runs, options_.resume ? RunLock::Folder::find : RunLock::Folder::make);
    });
    std::vector<SeedRun> seeds;
    ranks.agree("opening the runs", [&] { seeds = seed_runs(runs, config, options_, seeds_); });
    std::vector<Metrics> reached;
    JsonValue trained = JsonValue::array();
    std::atomic<bool> stop = false;
    const StopAtSignals signals(stop);
    const double started_s = now_s();
    for (SeedRun& one : seeds) {
      ranks.agree("checking the run folders", [&] {
        if (lock) lock->expect_in_place();
      });
      const std::int64_t seed = one.config[key::seed];
      if (!options_.quiet) {
        say("seed {}: into {}\n", seed, printable(one.run.folder()));
        std::fflush(stdout);
      }
      one.options.stop = &stop;
      one.options.started_s = started_s;
      const FinishedTraining training = train_into(one.run, one.config, one.options, ranks);
      trained.push_back(json_of(one.run, training));
      trained.back()["seed"] = seed;
      if (training.metrics.empty()) {
        if (json_) print_json({{"run", runs.folder()}, {"outcome", "stopped"}, {"seeds", trained}});
        say("stopped after step {} of seed {}; to resume: the same command with --out {} "
            "--resume\n",
            training.state.step, seed, shell_word(runs.folder()));
        return interrupted_status;
      }
      say("seed {}: {}  ({:.1f} s)\n", seed, show(training.metrics, training.signatures),
          training.state.elapsed_s);
      std::fflush(stdout);
      reached.push_back(training.metrics);
    }
    const Estimates estimates = estimates_of(reached);
    if (seeds_ > 1) say("mean of {} seeds: {}\n", seeds_, show(estimates));
    Metrics means;
    for (const auto& [name, estimate] : estimates) means[name] = estimate.mean;
    compare_with_expected(config, as_written(config), means);
    if (json_)
      print_json({{"run", runs.folder()},
                  {"outcome", "finished"},
                  {"mean", json_of(means)},
                  {"seeds", trained}});
    return 0;
  }

  // Returns the result of a run. Its best_loss is null if it was stopped before an evaluation.
  static JsonValue json_of(const Run& run, const FinishedTraining& training) {
    JsonValue object{{"run", run.folder()},
                     {"outcome", training.metrics.empty() ? "stopped" : "finished"},
                     {"step", training.state.step},
                     {"elapsed_s", training.state.elapsed_s},
                     {"best_loss", training.state.best_loss},
                     {"metrics", json_of(training.metrics)}};
    for (const auto& [split, baselines] : training.baselines)
      object["baselines"][split] = tapestry::json_of(baselines);
    return object;
  }

  static JsonValue json_of(const Metrics& metrics) {
    JsonValue object = JsonValue::object();
    for (const auto& [name, value] : metrics) object[name] = value;
    return object;
  }

  TrainingArguments given_;
  std::string out_;
  std::int64_t seeds_ = 0;
  bool json_ = false;
  TrainIntoOptions options_;
};

const RegisterCommand<Train> train_command("train", "train a model from a config");

}  // namespace
}  // namespace tapestry
