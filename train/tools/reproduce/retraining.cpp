#include "train/tools/reproduce/retraining.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "data/input_file.hpp"
#include "data/text/text.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/run/session.hpp"
#include "train/trainer/begin_task.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t most_config_bytes = 1 << 20;

std::optional<Checkpoint> head_of(const std::string& path) {
  return has_file(path) ? std::optional(load_checkpoint_head(path)) : std::nullopt;
}

Config config_of(const Run& run, const std::vector<std::string>& overrides) {
  std::error_code unseen;
  expect_input(fs::is_directory(run.folder(), unseen),
               "{}: no run's folder; give one, as runs/sort", run.folder());
  expect_input(has_file(run.config()),
               "{}: no run: it holds no config.toml; of several seeds name one", run.folder());
  const std::string text = read_file(run.config(), most_config_bytes);
  const Config before = resolved_config(text, run.config(), {});
  Config config = resolved_config(text, run.config(), overrides);
  const std::vector<std::string> differences = before.differences(config);
  expect_input(differences.empty(), "{}: under another config it is another training: {}",
               run.folder(), fmt::join(differences, ", "));
  return config;
}

std::vector<std::pair<std::int64_t, Schedule>> schedules_of(
    const Run& run, const std::vector<std::string>& overrides) {
  const std::vector<Session> sessions = read_sessions(run);
  std::vector<std::pair<std::int64_t, Schedule>> schedules;
  if (!knows_settings(sessions)) return schedules;
  const std::string text = read_file(run.config(), most_config_bytes);
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const auto before = settings_before(sessions, i);
    std::vector<std::string> settings;
    for (const std::string& name : {key::steps.name, key::decay_steps.name})
      if (const auto found = before.find(name); found != before.end() && !found->second.empty())
        settings.push_back(fmt::format("{}={}", name, found->second));
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    schedules.emplace_back(sessions[i].from_step,
                           make_schedule(resolved_config(text, run.config(), settings)));
  }
  return schedules;
}

}  // namespace

Retraining::Retraining(const Run& run, const std::vector<std::string>& overrides)
    : run_(run),
      overrides_(overrides),
      best_(head_of(run.best())),
      last_(head_of(run.checkpoint())),
      config_(config_of(run, overrides)) {
  for (const Checkpoint* kept : {best(), last()})
    if (kept) expect_trained_alike(*kept);
  // What was left out and recorded is left out again, whatever a later session allowed.
  config_.set(key::max_bad_steps, std::numeric_limits<std::int64_t>::max());
}

void Retraining::expect_trained_alike(const Checkpoint& checkpoint) const {
  const Config trained = resolved_config(checkpoint.config, checkpoint.path + " (its config)", {});
  const std::vector<std::string> differences = trained.differences(config_);
  expect_input(differences.empty(), "{}: {} was trained under another config: {}", run_.config(),
               checkpoint.path, fmt::join(differences, ", "));
}

Trainer& Retraining::begin(const Checkpoint* from) {
  const std::string& weights = config_[key::from];
  std::error_code unseen;
  expect_input(
      from || weights.empty() || fs::exists(weights, unseen),
      "{}: it began with the weights of {}, which is not there; --set {}=RUN says where it "
      "is now",
      run_.folder(), printable_beginning(weights), key::from.name);
  use_machine_as(config_);
  task_ = from ? make_task(*from, config_) : begin_task(config_);
  schedules_ = schedules_of(run_, overrides_);
  trainer_.emplace(*task_, config_, run_, from, never_, alone_);
  for (const Checkpoint* kept : {best(), last()})
    if (kept) expect_same_data(run_, kept->state, trainer_->state(), config_);
  for (const Session& session : read_sessions(run_))
    expect_same_data(run_, {.examples = session.examples, .data = session.data}, trainer_->state(),
                     config_);
  return *trainer_;
}

// A session begins where the last of those before it that was not killed had saved: the latest that
// begins up to here did the next step.
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
