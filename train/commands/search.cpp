#include "train/tools/search/search.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/training_config.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/plan/plan.hpp"
#include "train/tools/search/ledger.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

class SearchSettings final : public Command {
 public:
  void declare(Arguments& arguments) override {
    given_.declare(arguments);
    for (const KeyInfo& key : search_settings.keys()) arguments.setting(key, overrides_);
    arguments.option(
        "--aa", aa_,
        "A/A test: search N times for a winner among the base and itself with other "
        "seeds, and print the rate of false winners (default: search for a better config)",
        {.low = 1, .high = 1000});
    arguments.option("--out", out_,
                     "folder of the experiment (default: searches/<name>, or searches/<name>-aa)");
    arguments.flag("--resume", resume_, "resume the search; CONFIG may be the experiment's folder");
    arguments.flag("--dry-run", dry_run_, "print the number of runs and their time, and end");
    arguments.flag("--quiet", quiet_, "print the result only, without an estimate");
    arguments.flag("--json", json_, "print one JSON object, and everything else to standard error");
  }

  int run() override {
    quiet_ |= json_;
    if (json_) leave_output_to_json();
    std::signal(SIGPIPE, SIG_IGN);  // a closed output does not end the search
    resume_folder();
    vary_seed();
    const Config asked = given_.read(overrides_);
    const std::int64_t steps = search_settings.of(asked).steps;
    if (steps > 0) overrides_.push_back(fmt::format("{}={}", key::steps.name, steps));
    use_machine_as(asked);
    const Run experiment(out_.empty() ? default_folder(asked) : out_);
    const ConfigWith config_with = [&](const std::vector<std::string>& changes) {
      std::vector<std::string> all = overrides_;
      all.insert(all.end(), changes.begin(), changes.end());
      return given_.read(all, resume_ ? &experiment : nullptr);
    };
    std::vector<Candidate> candidates = make_candidates(config_with);
    const Config base = candidates.front().config;
    const SearchSize size = size_of(candidates);
    if (dry_run_ || (!quiet_ && !resume_)) print_size(size, config_with);
    if (dry_run_) {
      if (json_) print_json(json_of(size));
      return 0;
    }

    expect_input(resume_ || !fs::exists(experiment.folder()) ||
                     (fs::is_directory(experiment.folder()) && fs::is_empty(experiment.folder())),
                 "{}: already exists; give another --out, or add --resume to resume the search",
                 experiment.folder());
    RunLock lock(experiment, resume_ ? RunLock::Folder::find : RunLock::Folder::make);
    write_config(lock, base);
    const std::optional<SearchResult> result = search(lock, std::move(candidates), quiet_);
    if (!result) {
      say("stopped; to resume: {} search {} --resume\n", own_program(),
          shell_word(experiment.folder()));
      return interrupted_status;
    }
    if (json_)
      print_json(tapestry::json_of(*result));
    else
      say("{}", show(*result));
    if (!result->winner) return result->aa ? 0 : failed_status;
    if (!json_)
      say("{}/winner.toml has the config of {}\n", printable(experiment.folder()),
          result->contestants[*result->winner].candidate.name);
    return 0;
  }

 private:
  // Returns searches/<name>, or searches/<name>-aa for an A/A test. Throws InputError if the name
  // is not a valid folder name.
  static std::string default_folder(const Config& base) {
    Run::default_folder(base[key::name], false);  // throws
    return "searches/" + base[key::name] + (search_settings.of(base).is_aa_test() ? "-aa" : "");
  }

  // Sets the settings of the A/A test that --aa asks for.
  void vary_seed() {
    if (aa_ == 0) return;
    for (const std::string option : {"vary", "trials"})
      expect_input(std::ranges::none_of(overrides_,
                                        [&](const std::string& setting) {
                                          return setting.starts_with("search." + option + "=");
                                        }),
                   "--aa {}: an A/A test varies only the seed; leave out --{}", aa_, option);
    overrides_.push_back(search_settings["vary"].name + R"(=["seed"])");
    overrides_.push_back(fmt::format("{}={}", search_settings["trials"].name, aa_));
  }

  // Sets the config and --out from the experiment's folder that CONFIG names. Throws InputError
  // without --resume, and for another folder.
  void resume_folder() {
    if (is_shipped(given_.config) || !is_folder(given_.config)) return;
    const Run experiment(different_folders({given_.config}).front());
    expect_input(resume_ && is_there(experiment.config()) && !is_there(experiment.metrics()),
                 "{}: is a folder; give a config, or the folder of a search with --resume",
                 experiment.folder());
    std::error_code unseen;
    expect_input(out_.empty() || fs::equivalent(out_, experiment.folder(), unseen),
                 "--out {}: differs from {}, the search to resume; leave out --out", out_,
                 experiment.folder());
    given_.config = experiment.config();
    out_ = experiment.folder();
  }

  static JsonValue json_of(const SearchSize& size) {
    return {{"candidates", size.candidates},
            {"least_runs", size.least_runs},
            {"most_runs", size.most_runs},
            {"least_steps", size.least_steps},
            {"most_steps", size.most_steps}};
  }

  // Prints the number of runs and steps, and their time if it can be measured.
  static void print_size(const SearchSize& size, const ConfigWith& config_with) {
    say("{}: {} to {} runs, {} to {} steps\n",
        search_settings.of(config_with({})).is_aa_test()
            ? counted(size.candidates, "search", "searches") + " of the base against itself"
            : counted(size.candidates, "candidate") + " and the base",
        size.least_runs, size.most_runs, size.least_steps, size.most_steps);
    const TrainingPlan plan = plan_training(config_with, {.seconds = 2});
    if (plan.throughput) {
      const double step_s = seconds_of(plan.run_length, *plan.throughput) /
                            static_cast<double>(plan.run_length.steps);
      say("estimated time with the base's speed: {} to {}\n",
          duration_text(step_s * static_cast<double>(size.least_steps)),
          duration_text(step_s * static_cast<double>(size.most_steps)));
    }
    std::fflush(stdout);
  }

  // Returns the settings that affect the result of a search.
  static ConfigSettings settings_that_count(const Config& config) {
    ConfigSettings counting = config.settings_that_count();
    for (const auto& [name, value] : config.settings())
      if (name.starts_with("search.")) counting[name] = value;
    return counting;
  }

  // Writes the config of a new experiment, and new values of settings that do not affect the result
  // of a resumed one. Throws InputError if this had another config, or has lost its config.
  static void write_config(RunLock& lock, const Config& base) {
    const Run& run = lock.run();
    expect_no_link(run.ledger());
    if (!fs::exists(run.config())) {
      expect_input(!fs::exists(run.ledger()),
                   "{}: has no config.toml of the search that wrote ledger.jsonl; restore this "
                   "file, or start a new search with another --out",
                   printable(run.folder()));
      lock.replace(run.config(), {base.toml_with_origins()});
      return;
    }
    const Config recorded = recorded_config(run);
    const ConfigSettings before = settings_that_count(recorded), now = settings_that_count(base);
    const std::vector<std::string> differing = names_that_differ({&before, &now});
    expect_input(differing.empty(),
                 "{}: the search was begun with another config or other options, which differ in "
                 "{}; restore these, or resume with: {} search {} --resume",
                 printable(run.config()), fmt::join(differing, ", "), own_program(),
                 shell_word(run.folder()));
    if (recorded.settings() != base.settings())
      lock.replace(run.config(), {base.toml_with_origins()});
  }

  TrainingArguments given_;
  std::vector<std::string> overrides_;  // of the keys that options set
  std::string out_;
  std::int64_t aa_ = 0;  // number of A/A tests; 0: none
  bool resume_ = false, dry_run_ = false, quiet_ = false, json_ = false;
};

const RegisterCommand<SearchSettings> search_command(
    "search", "search for better settings, with seeds, confidence intervals and a final test");

}  // namespace
}  // namespace tapestry
