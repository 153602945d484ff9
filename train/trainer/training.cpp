#include "train/trainer/training.hpp"

#include <filesystem>

#include "train/config/keys.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/announcement.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/callbacks/progress.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/rank_agreement.hpp"
#include "train/trainer/stop_request.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// What rank 0 found in the run's folder, which it has locked, the others read.
std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume,
                                   Ranks& ranks) {
  std::optional<Checkpoint> checkpoint;
  ranks.agree("opening the run", [&] {
    if (ranks.rank() == 0) checkpoint = tapestry::open_run(run, config, resume);
  });
  ranks.agree("reading the checkpoint", [&] {
    if (ranks.rank() != 0 && resume) checkpoint = latest_checkpoint(run);
  });
  return checkpoint;
}

// Gives all ranks the weights of the best model, which rank 0 reads from the folder that it has
// locked. Returns its step.
std::int64_t share_best(const RunLock* lock, Task& task, Ranks& ranks) {
  std::int64_t step = 0;
  ranks.agree("reading the best model", [&] {
    if (!lock) return;
    lock->expect_in_place();
    const Checkpoint checkpoint = trained_head(lock->run().folder());
    lock->expect_in_place();  // so that the file that was opened is the run's own
    restore_parameters(checkpoint, task.model());
    step = checkpoint.state.step;
  });
  for (const Parameter* parameter : task.model().parameters()) {
    Array value = parameter->value();
    ranks.broadcast({value.mutable_raw(), value.bytes()}, "the best model");
  }
  ranks.broadcast(std::as_writable_bytes(std::span(&step, 1)), "the best model");
  return step;
}

// What the run's best model comes to on the split that had no part in training or choosing it;
// without values where it was stopped.
MetricsLine test_best(const RunLock* lock, Task& task, const Config& config, double elapsed_s,
                      Ranks& ranks) {
  const std::int64_t step = share_best(lock, task, ranks);
  return {.step = step,
          .split = "test",
          .values = evaluate(task, *task.test_data(), config, &stop_requested, ranks),
          .elapsed_s = elapsed_s,
          .signatures = task.signatures()};
}

// Adds those of a test as "test_loss" and so on.
template <class Value>
void add_as_test(std::map<std::string, Value>& to, const std::map<std::string, Value>& tested) {
  for (const auto& [name, value] : tested) to["test_" + name] = value;
}

// As far as it can be written: what ended the training is what counts. A file that was removed is
// not made again.
void record_failure(RunLock& lock, std::int64_t step, const std::exception& error) try {
  if (std::filesystem::exists(Run(lock.where()).sessions()))
    record_end(lock, step, fmt::format("failed: {}", error.what()));
} catch (const std::runtime_error&) {
  return;
}

// Whether this ended a new run as a refusal, such as for want of memory, before anything was saved.
bool is_refused(const RunLock& lock, const std::exception& error) {
  return (dynamic_cast<const InputError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) &&
         !lock.has_placed(lock.run().checkpoint()) && !lock.has_placed(lock.run().best());
}

// To the end of the steps, and the test of the best model after them, where there is one.
Training train_and_test(const RunLock* lock, Task& task, const Config& config, Trainer& trainer,
                        Ranks& ranks) {
  Training training{
      .metrics = trainer.train(), .signatures = task.signatures(), .state = trainer.state()};
  expect_finite(training.metrics, "validation", task.validation_data(), task, config, ranks);
  if (training.metrics.empty() || task.test_data() == nullptr) return training;
  const MetricsLine tested = test_best(lock, task, config, training.state.elapsed_s, ranks);
  if (tested.values.empty()) return {.metrics = {}, .signatures = {}, .state = training.state};
  expect_finite(tested.values, "test", *task.test_data(), task, config, ranks);
  trainer.record_test(tested);
  add_as_test(training.metrics, tested.values);
  add_as_test(training.signatures, tested.signatures);
  return training;
}

// The callbacks of rank 0, in the order of callbacks.hpp.
void add_recorders(Trainer& trainer, RunLock& lock, Task& task, Progress& progress,
                   const Config& config, const Ranks& ranks, const TrainingOptions& options) {
  if (options.profile)
    trainer.add(profile_steps(lock, ranks, trainer.gradients(),
                              [&trainer](const std::string& message) { trainer.log(message); }));
  trainer.add(record_metrics(lock));
  trainer.add(record_checksums(lock));
  trainer.add(progress);
  if (config[key::tensorboard]) trainer.add(record_for_tensorboard(lock, task, config));
  if (config[key::samples] && spec_of(config).samples)
    trainer.add(record_samples(lock, task, config));
}

}  // namespace

Training train_into(const Run& run, const Config& config, const TrainingOptions& options) {
  Ranks alone;
  return train_into(run, config, options, alone);
}

Training train_into(const Run& run, const Config& config, const TrainingOptions& options,
                    Ranks& ranks) {
  const bool writes = ranks.rank() == 0;
  std::optional<RunLock> lock;
  ranks.agree("locking the run", [&] {
    if (writes) lock.emplace(run, options.resume ? RunLock::Folder::find : RunLock::Folder::make);
  });
  std::optional<Checkpoint> checkpoint = open_run(run, config, options.resume, ranks);
  std::unique_ptr<Task> task;
  std::optional<Progress> progress;
  std::optional<Trainer> trainer;
  ranks.agree("reading the data", [&] {
    task = checkpoint ? make_task(*checkpoint, config) : begin_task(config);
    expect_input(ranks.alone() || !task->is_computed_whole(),
                 "{}: each part of a step computes the one graph in full, so that {} ranks gain "
                 "nothing: start one process, whose threads share the work",
                 config[key::name], ranks.size());
    progress.emplace(ProgressOptions{.steps = config[key::steps], .quiet = options.quiet});
    trainer.emplace(*task, config, run, checkpoint ? &*checkpoint : nullptr, stop_requested, ranks,
                    writes ? &*lock : nullptr);
    trainer->add(limit_time(config[key::time_limit], stop_requested));
    if (writes) add_recorders(*trainer, *lock, *task, *progress, config, ranks, options);
    for (Callback* callback : options.callbacks) trainer->add(*callback);
  });
  expect_same_everywhere(config, trainer->state(), ranks);
  std::optional<std::string> backends_before;
  if (checkpoint) backends_before = checkpoint->backends;
  std::optional<std::vector<ChangedSetting>> changed;  // none of a run that begins here
  if (checkpoint) changed = changes(config_of(*checkpoint), config);
  checkpoint.reset();  // its tensors have their places

  // Nothing is refused from here on, and nothing was written before.
  ranks.agree("beginning the run", [&] {
    if (!writes) return;
    if (options.resume) lock->remove_unfinished();
    lock->replace(run.config(), {config.toml_with_origins()});
    record_begin(*lock, trainer->state(), ranks.size(), changed);
  });
  stop_at_signals();
  ranks.watch(stop_requested, [name = ranks.name(ranks.rank()),
                               folder = run.folder()](const std::string& missing) {
    complain(fmt::format("{}: {}; what was saved before stays in {}", name, missing, folder));
  });
  announce(config, run, *task, trainer->state(), backends_before, options);
  Training training;
  try {
    training = train_and_test(writes ? &*lock : nullptr, *task, config, *trainer, ranks);
    if (writes) lock->expect_in_place();
  } catch (const std::exception& error) {
    if (writes && !options.resume && is_refused(*lock, error))
      lock->remove_placed();
    else if (writes)
      record_failure(*lock, trainer->state().step, error);
    throw;
  }
  if (writes) record_end(*lock, training.state.step, training.metrics.empty() ? "stopped" : "done");
  return training;
}

}  // namespace tapestry
