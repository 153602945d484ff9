#include "train/trainer/open_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/checksum.hpp"
#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

void expect_same(const Config& before, const Config& config, const Run& run) {
  const std::string &path = config[key::data_path], &path_before = before[key::data_path];
  expect_input(path.empty() == path_before.empty(),
               "{}: cannot resume with other data: {} = \"{}\" was \"{}\"; restore the value, or "
               "start a new run with another --out",
               run.folder(), key::data_path.name, path, path_before);
  const std::vector<std::string> differences = before.differences(config);
  expect_input(differences.empty(),
               "{}: cannot resume with a different config: {}; restore the values, or start a new "
               "run with another --out",
               run.folder(), fmt::join(differences, ", "));
}

// Returns whether a text is the beginning of the file of this config, or of one from which the
// config may differ when a run is resumed.
bool is_beginning(const std::string& text, const Config& config) try {
  const std::string own = "\n" + config.toml_with_origins();
  for (const std::string_view line : split(text, '\n'))
    if (own.find(fmt::format("\n{}", line.substr(0, line.find('=')))) == own.npos) return false;
  const std::size_t whole_lines = text.rfind('\n') + 1;  // 0 without a line end
  std::vector<std::string> settings;
  for (const TomlSetting& given : ConfigDocument("", text.substr(0, whole_lines)).settings)
    settings.push_back(fmt::format("{}={}", given.name, to_toml(given.value.value())));
  return resolved_config(config.toml(), "", settings).differences(config).empty();
} catch (const std::exception&) {  // another text
  return false;
}

// Returns whether the folder has at most the beginning of a config: its run was killed before it
// had written a whole file.
bool is_blank(const Run& run, const Config& config) {
  const std::vector<std::string> names = file_names(run.folder());
  const std::string begun = run.config() + unfinished_ending;
  const bool is_alone = names.size() == 1 && fs::path(begun).filename() == names.front();
  return names.empty() || (is_alone && has_file(begun) && !fs::is_symlink(begun) &&
                           is_beginning(read_text(begun), config));
}

// Returns the path of a file that exists and that a run writes; empty if there is none.
std::string written_file(const Run& run) {
  for (const std::string& file : run.files())
    for (const std::string& path : {file, file + unfinished_ending}) {
      std::error_code unseen;
      if (fs::exists(fs::symlink_status(path, unseen))) return path;
    }
  return "";
}

// Returns ", and the next learning rate changes from 1e-05 to 0.00164", with the digits in which
// they differ; "" if they are equal.
std::string rates_apart(double now, double before) {
  std::string a, b;
  for (int digits = 3; a == b && now != before; ++digits)
    a = fmt::format("{:.{}g}", now, digits), b = fmt::format("{:.{}g}", before, digits);
  return a == b ? "" : fmt::format(", and the next learning rate changes from {} to {}", b, a);
}

// Throws InputError if new settings change the rest of a learning-rate schedule whose decay has
// begun, unless optim.decay_steps is set.
void expect_same_schedule(const Run& run, const Config& before, const Config& config,
                          std::int64_t step) {
  const Schedule was = make_schedule(before), now = make_schedule(config);
  const bool has_end = now.decay != Decay::constant && now.decay != Decay::inverse_sqrt;
  if (!has_end || (now.steps == was.steps && now.cooldown == was.cooldown)) return;
  const bool is_stable =
      step <= std::min(was.stable_steps(), now.stable_steps()) && was.warmup == now.warmup;
  const std::string rates = rates_apart(now.at(step), was.at(step));
  if (now.decay == Decay::stable_linear)
    config.expect(is_stable, key::steps,
                  "{} is at step {}, and the learning rate decays from step {} on{}; restore its "
                  "schedule{}",
                  run.folder(), step, std::min(was.stable_steps(), now.stable_steps()), rates,
                  fs::exists(run.before_decay())
                      ? fmt::format(", or raise {} to resume before the decay", key::steps.name)
                      : "");
  config.expect(
      is_stable || config[key::decay_steps] > 0, key::steps,
      "{} is at step {}, and its learning-rate schedule ends at step {}{}; add --set {}={} "
      "to keep this schedule, or --set {}={} to change its end",
      run.folder(), step, was.steps, rates, key::decay_steps.name, was.steps, key::decay_steps.name,
      now.steps);
}

}  // namespace

std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume) {
  expect_no_search(run);
  const bool saved =
      fs::exists(run.checkpoint()) || fs::exists(run.best()) || fs::exists(run.before_decay());
  const bool begun = saved || fs::exists(run.config()) || fs::exists(run.metrics());
  expect_input(resume || !begun,
               "{}: already holds {} run; give another --out, or add --resume to `{} train`",
               run.folder(), saved ? "a" : "an unfinished", own_program());
  expect_input(begun || seed_folders(run.folder()).empty(),
               "{}: contains runs of several seeds; give another --out, or resume N of them with "
               "--seeds N --resume",
               run.folder());
  if (!resume) {
    const std::string written = written_file(run);
    expect_input(written.empty() || is_blank(run, config),
                 "{}: already exists, and a training writes a file of this name; give another "
                 "--out, or move this file away",
                 written);
    return std::nullopt;
  }
  for (const std::string& path : run.files()) has_file(path);  // throws for a pipe or a device
  for (const std::string& path : {run.metrics(), run.checksums(), run.samples(), run.sessions()})
    expect_no_link(path);

  std::optional<Checkpoint> checkpoint = checkpoint_to_resume(run, config);
  if (!checkpoint) {  // the run ended before its first checkpoint, or has not begun
    if (is_blank(run, config)) return std::nullopt;
    expect_run(run, {run.checkpoint(), run.config()});
    expect_same(recorded_config(run), config, run);
    return std::nullopt;
  }
  expect_resumable(run, *checkpoint, config);
  return checkpoint;
}

void expect_resumable(const Run& run, const Checkpoint& checkpoint, const Config& config) {
  expect_input(checkpoint.state.examples > 0,
               "{}: holds imported weights without optimizer state; `{} train CONFIG --from {}` "
               "starts a training from them",
               run.folder(), own_program(), shell_word(run.folder()));
  const Config before = config_of(checkpoint);
  expect_same(before, config, run);
  config.expect(config[key::steps] >= checkpoint.state.step, key::steps,
                "{} has already completed {}; expected at least that number", run.folder(),
                counted(checkpoint.state.step, "step"));
  expect_same_schedule(run, before, config, checkpoint.state.step);
}

std::optional<Checkpoint> checkpoint_to_resume(const Run& run, const Config& config) {
  std::optional<Checkpoint> latest = latest_checkpoint(run);
  if (!latest || !fs::exists(run.before_decay())) return latest;
  const Schedule was = make_schedule(config_of(*latest)), now = make_schedule(config);
  const bool changes = now.steps != was.steps || now.cooldown != was.cooldown;
  const bool repeats_decay = now.decay == Decay::stable_linear && changes &&
                             was.stable_steps() <= now.stable_steps() &&
                             was.stable_steps() < latest->state.step;
  if (!repeats_decay) return latest;
  const Checkpoint kept = load_recorded_metadata(run.before_decay());
  return kept.state.step == was.stable_steps() ? kept : latest;
}

bool has_later_best(const Run& run, std::int64_t step) {
  return fs::exists(run.best()) && load_checkpoint_metadata(run.best()).state.step > step;
}

TrainingState initial_state(Task& task, const Config& config) {
  const Dataset &training = task.training_data(), *test = task.test_data();
  TrainingState state{.examples = training.size()};
  if (config[key::data_path].empty()) return state;
  Checksum all, of_training;
  training.add_to(all);
  state.splits["data_train"] =
      training.add_examples_to(of_training) ? of_training.hex() : all.hex();
  task.validation_data().add_to(all);
  state.data = all.hex();
  state.splits["data_validation"] = examples_checksum(task.validation_data());
  if (test) state.splits["data_test"] = examples_checksum(*test);
  return state;
}

void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config) {
  expect_input(before.examples == now.examples,
               "{}: trained on {} so far, but {} = {} now gives {}; give the original data and "
               "tokenizer, because other data need a new run",
               run.folder(), counted(before.examples, "example"), key::data_path.name,
               printable_beginning(config[key::data_path]), now.examples);
  expect_input(
      before.data.empty() || before.data == now.data,
      "{}: {} = {} gives the same number of examples but different contents; give the original "
      "data and tokenizer, because other data need a new run",
      run.folder(), key::data_path.name, printable_beginning(config[key::data_path]));
  for (const auto& [name, sum] : before.splits)
    expect_input(value_in(now.splits, name) == sum,
                 "{}: {} = {} gives other {} examples than those of the run; give the original "
                 "data, because other data need a new run",
                 run.folder(), key::data_path.name, printable_beginning(config[key::data_path]),
                 name.substr(name.find('_') + 1));
}

void expect_same_data(const Run& run, const TrainingState& now, const Config& config) {
  std::vector<Session> sessions = read_sessions(run);
  for (Session& session : sessions) {
    // A session may have added a test split.
    if (&session != &sessions.back()) session.splits.clear();
    expect_same_data(run,
                     {.examples = session.examples, .data = session.data, .splits = session.splits},
                     now, config);
  }
}

}  // namespace tapestry
