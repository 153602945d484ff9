#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "autograd/parallel.hpp"
#include "data/text/text.hpp"
#include "train/commands/command.hpp"
#include "train/commands/training_config.hpp"
#include "train/config/keys.hpp"
#include "train/config/shipped_configs.hpp"
#include "train/distributed/placement.hpp"
#include "train/measure/machine.hpp"
#include "train/run/run_lock.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/trainer.hpp"
#include "train/trainer/training.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// `written`: the config as its file has it.
void compare_with_expected(const Config& config, const ConfigSettings& written,
                           const Metrics& metrics) {
  const std::string& metric = config[key::expected_metric];
  if (metric.empty()) return;
  const auto reached = metrics.find(metric);
  if (reached == metrics.end())
    say("expected.metric = \"{}\": the evaluation has no such figure\n", metric);
  else if (const std::string why = why_not_expected(config.settings(), written); !why.empty())
    say("{}: {:.4f} reached; not compared with expected.value: {}\n", metric, reached->second,
        printable(why));
  else
    say("{}: {:.4f} reached, {:.4f} expected ({})\n", metric, reached->second,
        config[key::expected_value], config[key::expected_source]);
}

// One of several trainings that differ in their seed alone, into RUN/seed-N.
struct SeedRun {
  Run run;
  Config config;
  TrainingOptions options;
};

// Those that are there go on, or are only evaluated, with --resume, and the others begin. Fails
// before any of them starts. The folder of them all is locked; each is once more when it starts.
std::vector<SeedRun> seed_runs(const Run& runs, const Config& config,
                               const TrainingOptions& options, std::int64_t seeds) {
  const std::int64_t first = config[key::seed];
  config.expect(first <= std::numeric_limits<std::int64_t>::max() - seeds, key::seed,
                "leaves no room for --seeds {}", seeds);
  expect_input(!fs::exists(runs.metrics()), "{}: holds a run of one seed; another --out keeps it",
               runs.folder());
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
  if (options.resume && !begun && !fs::is_empty(runs.folder()))
    expect_run(runs, {all.front().run.folder()});
  return all;
}

class Train final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.config(config_);
    arguments.overrides(overrides_);
    arguments.option("--out", out_, "the run's folder; by default runs/<name>");
    arguments.option("--from", from_,
                     "begin with the weights of this run or checkpoint, and with its [model]");
    arguments.flag("--resume", options_.resume,
                   "go on from the run's checkpoint; CONFIG may be the run's folder");
    arguments.threads(threads_);
    arguments.option(
        "--seeds", seeds_,
        "train N seeds, from the config's on, and print the mean and standard deviation",
        {.low = 1, .high = 1000});
    arguments.flag("--quiet", options_.quiet, "print the result only");
    arguments.flag("--profile", options_.profile, "print where the time of a step goes");
  }

  int run() override {
    resume_folder();
    Ranks ranks = Ranks::launched();
    return ranks.alone() ? train(ranks) : train_together(ranks);
  }

 private:
  // Takes a run's folder that --resume is to continue for its config and --out.
  void resume_folder() {
    std::error_code unseen;
    if (shipped_configs().contains(config_) || !fs::is_directory(config_, unseen)) return;
    const Run run(different_folders({config_}).front());
    expect_input(seed_folders(run.folder()).empty(),
                 "{}: holds runs of several seeds; give the config that began them, with --out {}",
                 run.folder(), shell_word(run.folder()));
    if (!fs::exists(run.config(), unseen)) return;  // which is no run
    expect_input(options_.resume,
                 "{}: is a run's folder: add --resume to resume this run, or give {} to begin a "
                 "new one",
                 run.folder(), run.config());
    expect_input(out_.empty() || fs::equivalent(out_, run.folder(), unseen),
                 "--out {}: is another folder than {}, the run to resume; leave --out out", out_,
                 run.folder());
    config_ = run.config();
    out_ = run.folder();
  }

  // What ends all ranks alike is said once, by rank 0; what happened to one, by that one, which
  // ends the others.
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

  Config read_config(int ranks) const {
    std::vector<std::string> overrides = overrides_;
    if (threads_ > 0) overrides.push_back(fmt::format("train.threads={}", threads_));
    Config config = training_config(config_, overrides, from_);
    check_training_keys(config, ranks);
    return config;
  }

  // The settings of the config without --set and --from; where it is whole by these alone, its own.
  ConfigSettings as_written(const Config& config) const try {
    return load_config(config_, {}).settings();
  } catch (const InputError&) {
    return config.settings();
  }

  // Where a run without --out goes depends on those that are there: rank 0 looks.
  std::string folder(const Config& config, Ranks& ranks) const {
    if (!out_.empty()) return out_;
    std::string found;
    ranks.agree("looking for the run", [&] {
      if (ranks.rank() == 0) found = Run::default_folder(config[key::name], options_.resume);
    });
    return ranks.gather(found, "the run's folder").front();
  }

  // A number of threads that was asked for stays.
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
    const Config& config = *read;
    for (const std::string& dropped : config.dropped())
      if (!options_.quiet) say("{}\n", dropped);
    use_machine(config, ranks);
    const Run run(folder(config, ranks));
    if (seeds_ > 0) return train_seeds(config, run, ranks);
    const Training training = train_into(run, config, options_, ranks);
    if (training.metrics.empty()) {
      say("stopped after step {}; tapestry train {} --out {} --resume goes on\n",
          training.state.step, shell_word(run.config()), shell_word(run.folder()));
      return interrupted_status;
    }
    say("done after {:.1f} s: {}\n", training.state.elapsed_s,
        show(training.metrics, training.signatures));
    compare_with_expected(config, as_written(config), training.metrics);
    if (!options_.quiet) say("tapestry sample {} shows what it learnt\n", shell_word(run.folder()));
    return 0;
  }

  // Trains so many seeds, each into RUN/seed-N.
  int train_seeds(const Config& config, const Run& runs, Ranks& ranks) const {
    std::optional<RunLock> lock;
    ranks.agree("locking the runs", [&] {
      if (ranks.rank() == 0)
        lock.emplace(runs, options_.resume ? RunLock::Folder::find : RunLock::Folder::make);
    });
    std::vector<SeedRun> seeds;
    ranks.agree("opening the runs", [&] { seeds = seed_runs(runs, config, options_, seeds_); });
    std::vector<Metrics> reached;
    for (const SeedRun& one : seeds) {
      ranks.agree("looking for the runs", [&] {
        if (lock) lock->expect_in_place();
      });
      const std::int64_t seed = one.config[key::seed];
      if (!options_.quiet) {
        say("seed {}: into {}\n", seed, printable(one.run.folder()));
        std::fflush(stdout);
      }
      const Training training = train_into(one.run, one.config, one.options, ranks);
      if (training.metrics.empty()) {
        say("stopped after step {} of seed {}; the same command with --out {} --resume goes on\n",
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
    return 0;
  }

  std::string config_, out_, from_;
  std::vector<std::string> overrides_;
  std::int64_t threads_ = 0, seeds_ = 0;
  TrainingOptions options_;
};

const RegisterCommand<Train> train_command("train", "train from a config");

}  // namespace
}  // namespace tapestry
