#include "train/tools/reproduce/retraining.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/open_run.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

std::optional<Checkpoint> head_of(const std::string& path) {
  return has_file(path) ? std::optional(load_checkpoint_metadata(path)) : std::nullopt;
}

// Returns the run's config with overrides. Throws InputError if these change the bits of the run.
Config same_config(const Run& run, const std::vector<std::string>& overrides) {
  expect_run(run, {run.config()});
  const ConfigDocument document(run.config(), config_text(run));
  Config config = resolved_config(document, overrides);
  const std::vector<std::string> differences = resolved_config(document, {}).differences(config);
  expect_input(differences.empty(),
               "{}: cannot be trained again with different settings: {}; leave out the --set",
               run.folder(), fmt::join(differences, ", "));
  return config;
}

}  // namespace

std::vector<std::pair<std::int64_t, Config>> Retraining::configs_of_sessions(
    const std::vector<std::string>& overrides) const {
  std::vector<std::pair<std::int64_t, Config>> configs;
  if (!knows_settings(sessions_)) return configs;
  const ConfigDocument document(run_.config(), config_text(run_));
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    const ConfigSettings before = settings_before(sessions_, i);
    std::vector<std::string> settings;
    for (const std::string& name :
         {key::steps.name, key::decay_steps.name, key::cooldown_steps.name, key::eval_every.name})
      if (const std::string value = value_in(before, name); !value.empty())
        settings.push_back(fmt::format("{}={}", name, value));
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    configs.emplace_back(sessions_[i].from_step, resolved_config(document, settings));
  }
  return configs;
}

Retraining::Retraining(const Run& run, const std::vector<std::string>& overrides)
    : run_(run),
      overrides_(overrides),
      best_(head_of(run.best())),
      last_(head_of(run.checkpoint())),
      sessions_(read_sessions(run)),
      config_(same_config(run, overrides)) {
  for (const Checkpoint* kept : {best(), last()})
    if (kept) expect_trained_alike(*kept);
  // Steps that were skipped are skipped again, whatever limit a later session set.
  config_.set(key::max_bad_steps, std::numeric_limits<std::int64_t>::max());
}

void Retraining::expect_trained_alike(const Checkpoint& checkpoint) const {
  expect_input(
      checkpoint.state.examples > 0,
      "{}: holds imported weights, so that there is no training to repeat; give a run that "
      "was trained",
      run_.folder());
  const std::vector<std::string> differences = config_of(checkpoint).differences(config_);
  const std::size_t others = differences.empty() ? 0 : differences.size() - 1;
  expect_input(differences.empty(),
               "{}: {} was trained with a different config: {}{}; restore the config, or use a "
               "checkpoint of this run",
               run_.config(), checkpoint.path, differences.empty() ? "" : differences.front(),
               others > 0 ? " and " + counted(static_cast<std::int64_t>(others), "other key") : "");
}

Trainer& Retraining::begin(const Checkpoint* from) {
  const std::string& weights = config_[key::from];
  expect_input(
      from || weights.empty() || is_there(weights),
      "{}: {} = {}: no such file or folder; give the present path of the weights with --set {}=RUN",
      run_.folder(), key::from.name, printable_beginning(weights), key::from.name);
  use_machine_as(config_);
  task_ = from ? make_task(*from, config_) : begin_task(config_);
  for (const auto& [step, config] : configs_of_sessions(overrides_))
    schedules_.emplace_back(step, make_schedule(config));
  trainer_.emplace(*task_, config_, run_, from, never_, alone_);
  for (const Checkpoint* kept : {best(), last()})
    if (kept) expect_same_data(run_, kept->state, trainer_->state(), config_);
  trainer_->expect_data_of(run_);
  return *trainer_;
}

// Sets the schedule of the session that trained the next step: the last session that began at or
// before the current step. A session begins at the last checkpoint of the sessions before it.
void Retraining::follow_session() {
  const auto did = std::find_if(schedules_.rbegin(), schedules_.rend(), [&](const auto& session) {
    return session.first <= trainer_->state().step;
  });
  if (did != schedules_.rend()) trainer_->follow(did->second);
}

MetricSums Retraining::step() {
  follow_session();
  return trainer_->step();
}

ComputedStep Retraining::compute() {
  follow_session();
  return trainer_->compute();
}

}  // namespace tapestry
