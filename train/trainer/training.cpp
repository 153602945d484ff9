#include "train/trainer/training.hpp"

#include <atomic>
#include <filesystem>
#include <sstream>

#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "autograd/kernels/matmul.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/callbacks/progress.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/stop_at_signals.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

namespace {

// Returns the checkpoint to resume, if there is one. Rank 0, which has locked the folder, opens the
// run, and the other ranks read the same checkpoint.
std::optional<Checkpoint> open_run_on_all_ranks(const Run& run, const Config& config, bool resume,
                                                Ranks& ranks) {
  std::optional<Checkpoint> checkpoint;
  ranks.agree("opening the run", [&] {
    if (ranks.rank() == 0) checkpoint = open_run(run, config, resume);
  });
  ranks.agree("reading the checkpoint", [&] {
    if (ranks.rank() != 0 && resume) checkpoint = checkpoint_to_resume(run, config);
  });
  return checkpoint;
}

// Returns everything on which the bits of a training depend, each with its name in messages.
std::vector<std::pair<std::string, std::string>> what_decides(const Config& config,
                                                              const TrainingState& state) {
  return {{"version", version()},
          {"processor or engine", backends()},
          {"program", library_checksum()},
          {"config", config.toml()},
          {"data", fmt::format("{} examples, {}", state.examples,
                               state.data.empty() ? "synthetic" : "checksum " + state.data)},
          {"splits of the data", combined(state.splits)},
          {"checkpoint", fmt::format("step {}", state.step)}};
}

// Returns "own line, not other line" for the first lines that differ.
std::string first_difference(const std::string& own, const std::string& other) {
  std::istringstream mine(own), theirs(other);
  std::string one, two;
  while (std::getline(mine, one) && std::getline(theirs, two) && one == two) continue;
  return fmt::format("{}, not {}", one, two);
}

// Throws InputError if a rank has another program, processor, config, data or checkpoint than rank
// 0.
void expect_same_everywhere(const Config& config, const TrainingState& state, Ranks& ranks) {
  if (ranks.alone()) return;
  const auto facts = what_decides(config, state);
  std::vector<std::string> values;
  for (const auto& [name, value] : facts) values.push_back(value);
  const auto all = ranks.gather(std::move(values), "the comparison of the ranks");
  for (int rank = 1; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const std::string &wanted = all[0][i], &found = all[rank].at(i);
      if (found == wanted) continue;
      ranks.found_by_all();
      throw InputError(fmt::format("{} differs from {} in the {}: {}; all ranks need the same",
                                   ranks.name(rank), ranks.name(0), facts[i].first,
                                   first_difference(found, wanted)));
    }
}

// Returns text on how many parameters are trained; "" if all are.
std::string trained_share(Module& model) {
  std::int64_t fixed = 0;
  for (const Parameter* parameter : model.parameters())
    if (parameter->role == Role::fixed) fixed += parameter->tensor.size();
  return fixed == 0 ? "" : fmt::format(" ({} of them trained)", count_parameters(model) - fixed);
}

// Prints the first lines of a training: model, data, machine, and unusual settings.
// `backends_before` computed the checkpoint that is resumed; none: the training begins at step 0.
void announce(const Config& config, const Run& run, Task& task, const TrainingState& state,
              const std::optional<std::string>& backends_before, const TrainIntoOptions& options) {
  if (options.silent) return;
  if (options.resume && !backends_before)
    say("{}: has no checkpoint yet: starts from step 0\n", run.folder());
  if (config[key::precision] == MatmulPrecision::bfloat16 && !has_bfloat16_products())
    say("{} = \"bf16\": this processor has no bfloat16 products: operands are rounded to bfloat16 "
        "and multiplied in float32, which is not faster\n",
        key::precision.name);
  if (!options.quiet)
    say("{}: {}{}, {}, {}, into {}{}\n", config[key::name],
        counted(count_parameters(task.model()), "parameter"), trained_share(task.model()),
        counted(task.training_data().size(), "training example"), machine(),
        printable(run.folder()),
        backends_before             ? fmt::format(", from step {}", state.step)
        : config[key::from].empty() ? ""
                                    : ", from the weights of " + config[key::from]);
  if (const std::string remark = task.remark(); !remark.empty() && !options.quiet)
    say("{}\n", remark);
  if (const std::string unfit = learning_rate_of_another_kind(config); !unfit.empty())
    say("{}\n", unfit);
  if (backends_before && !backends_before->empty() && *backends_before != backends())
    say("{}: was trained with {:?} until now and resumes with \"{}\": last digits will differ\n",
        run.folder(), *backends_before, backends());
}

// Copies the weights of the best model to all ranks; rank 0 reads them from the folder that it has
// locked. Returns its step.
std::int64_t share_best(const RunLock* lock, Task& task, Ranks& ranks) {
  std::int64_t step = 0;
  ranks.agree("reading the best model", [&] {
    if (!lock) return;
    lock->expect_in_place();
    const Checkpoint checkpoint = load_trained_metadata(lock->run().folder());
    lock->expect_in_place();  // the file that was opened belongs to the run
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

// Adds the metrics of the test split as "test_loss" and so on.
template <class Value>
void add_as_test(std::map<std::string, Value>& to, const std::map<std::string, Value>& tested) {
  for (const auto& [name, value] : tested) to["test_" + name] = value;
}

// Returns whether the error is wrong input or a lack of memory, and occurred before this process
// wrote a checkpoint or the best model.
bool is_refused(const RunLock& lock, const std::exception& error) {
  return (dynamic_cast<const InputError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) &&
         !lock.has_placed(lock.run().checkpoint()) && !lock.has_placed(lock.run().best()) &&
         !lock.has_placed(lock.run().before_decay());
}

// Removes the files of a new run that was refused. Otherwise records why the training failed,
// unless the record was removed or cannot be written: the error of the training is more important.
void record_failure(RunLock& lock, std::int64_t step, const std::exception& error,
                    bool resume) try {
  if (!resume && is_refused(lock, error))
    lock.remove_placed();
  else if (std::filesystem::exists(Run(lock.where()).sessions()))
    record_end(lock, step, fmt::format("failed: {}", error.what()));
} catch (const std::runtime_error&) {
  return;
}

// Trains to the last step, then evaluates the best model on the test split if there is one.
FinishedTraining train_and_test(const RunLock* lock, Task& task, Trainer& trainer, Ranks& ranks) {
  FinishedTraining training{
      .metrics = trainer.train(), .signatures = task.signatures(), .state = trainer.state()};
  trainer.expect_finite(training.metrics, "validation", task.validation_data());
  if (training.metrics.empty() || task.test_data() == nullptr) return training;
  const MetricsLine tested{.step = share_best(lock, task, ranks),  // then of the best model
                           .split = "test",
                           .values = trainer.evaluate(*task.test_data()),
                           .elapsed_s = training.state.elapsed_s,
                           .signatures = task.signatures()};
  if (tested.values.empty()) return {.metrics = {}, .signatures = {}, .state = training.state};
  trainer.expect_finite(tested.values, "test", *task.test_data());
  trainer.record_test(tested);
  add_as_test(training.metrics, tested.values);
  add_as_test(training.signatures, tested.signatures);
  return training;
}

// Records the task's baselines on the splits that were evaluated. They are no part of the training,
// which has ended well if they do not fit into memory.
SplitBaselines record_baselines(RunLock& lock, Task& task) try {
  const Dataset* const test = task.test_data();
  std::vector<const Dataset*> splits{&task.validation_data()};
  if (test) splits.push_back(test);
  std::vector<Baselines> found = task.baselines(splits);
  SplitBaselines all;
  if (found.empty()) return all;
  all["val"] = std::move(found.front());
  if (test) all["test"] = std::move(found.back());
  lock.replace(lock.run().baselines(), {lines_of(all)});
  return all;
} catch (const std::bad_alloc&) {
  return {};
}

// Records the end of the training, with the memory that it took, and then the baselines.
void end_run(RunLock& lock, Task& task, const TrainIntoOptions& options,
             FinishedTraining& training) {
  const bool is_done = !training.metrics.empty();
  record_end(lock, training.state.step, is_done ? "done" : "stopped");
  if (is_done && options.fits_baselines) training.baselines = record_baselines(lock, task);
}

// Throws InputError for several ranks if each computes the whole graph.
void expect_divisible(const Task& task, const Config& config, const Ranks& ranks) {
  expect_input(ranks.alone() || !task.is_computed_whole(),
               "{}: every micro-batch computes the whole graph, so {} ranks are not faster than "
               "one; start one process",
               config[key::name], ranks.size());
}

void complain_of_missing_ranks(Ranks& ranks, const std::atomic<bool>& stop, const Run& run) {
  ranks.watch(
      stop, [name = ranks.name(ranks.rank()), folder = run.folder()](const std::string& missing) {
        complain(fmt::format("{}: {}; the checkpoints in {} are kept", name, missing, folder));
      });
}

// Adds the callbacks of rank 0, in the order of callbacks.hpp.
void add_recorders(Trainer& trainer, RunLock& lock, Task& task, const Config& config,
                   const Ranks& ranks, const TrainIntoOptions& options) {
  if (options.profile)
    trainer.add(profile_steps(lock, ranks, trainer.gradients(),
                              [&trainer](const std::string& message) { trainer.log(message); }));
  trainer.add(record_metrics(lock));
  trainer.add(record_checksums(lock));
  if (!options.silent)
    trainer.add(std::make_unique<Progress>(
        ProgressOptions{.steps = config[key::steps], .quiet = options.quiet}));
  if (config[key::tensorboard]) trainer.add(record_for_tensorboard(lock, task, config));
  if (config[key::samples] && spec_of(config).samples)
    trainer.add(record_samples(lock, task, config));
}

}  // namespace

std::string FinishedTraining::compared_with_baselines() const {
  if (baselines.empty()) return "";
  const auto& [split, all] = *baselines.begin();
  constexpr std::string_view prefix = "test_";
  Metrics best{{"loss", state.best_loss}};  // all that is known of the best model
  if (split == "test")
    for (const auto& [name, value] : metrics)
      if (name.starts_with(prefix)) best[name.substr(prefix.size())] = value;
  if (split == "val" && metrics.at("loss") == state.best_loss) best = metrics;
  return show(all, best);
}

FinishedTraining train_into(const Run& run, const Config& config, const TrainIntoOptions& options) {
  Ranks alone;
  return train_into(run, config, options, alone);
}

FinishedTraining train_into(const Run& run, const Config& config, const TrainIntoOptions& options,
                            Ranks& ranks) {
  const double started_s = options.started_s.value_or(now_s());
  std::atomic<bool> own_stop = false;
  std::atomic<bool>& stop = options.stop ? *options.stop : own_stop;
  const bool writes = ranks.rank() == 0;
  std::optional<RunLock> lock;
  ranks.agree("locking the run", [&] {
    if (writes) lock.emplace(run, options.resume ? RunLock::Folder::find : RunLock::Folder::make);
  });
  std::optional<Checkpoint> checkpoint = open_run_on_all_ranks(run, config, options.resume, ranks);
  std::unique_ptr<Task> task;
  std::optional<Trainer> trainer;
  ranks.agree("reading the data", [&] {
    task = checkpoint ? make_task(*checkpoint, config) : begin_task(config);
    expect_divisible(*task, config, ranks);
    trainer.emplace(*task, config, run, checkpoint ? &*checkpoint : nullptr, stop, ranks,
                    writes ? &*lock : nullptr);
    if (options.same_data_as) trainer->expect_data_of(*options.same_data_as);
    trainer->add(limit_time(
        config, trainer->state(), stop, [&](const std::string& message) { trainer->log(message); },
        started_s));
    if (writes) add_recorders(*trainer, *lock, *task, config, ranks, options);
    for (Callback* callback : options.callbacks) trainer->add(*callback);
  });
  expect_same_everywhere(config, trainer->state(), ranks);
  std::optional<std::string> backends_before;
  if (checkpoint) backends_before = checkpoint->backends;
  std::optional<std::vector<ChangedSetting>> changed;  // none if the run begins here
  if (checkpoint) changed = changes(config_of(*checkpoint), config);
  const bool repeats_decay = checkpoint && checkpoint->path == run.before_decay();
  checkpoint.reset();  // its tensors have been restored
  // No check comes after this point, and no file was written before it.
  ranks.agree("beginning the run", [&] {
    if (!writes) return;
    lock->remove_unfinished();
    if (repeats_decay) lock->restore_before_decay(has_later_best(run, trainer->state().step));
    try {
      lock->replace(run.config(), {config.toml_with_origins()});
      record_begin(*lock, trainer->state(), ranks.size(), changed);
    } catch (...) {
      if (!options.resume) lock->remove_placed();
      throw;
    }
  });
  FinishedTraining training;
  std::optional<StopAtSignals> signals;
  if (options.stops_at_signals) signals.emplace(stop);
  try {
    complain_of_missing_ranks(ranks, stop, run);
    announce(config, run, *task, trainer->state(), backends_before, options);
    training = train_and_test(writes ? &*lock : nullptr, *task, *trainer, ranks);
    if (writes) lock->expect_in_place();
  } catch (const std::exception& error) {
    if (writes) record_failure(*lock, trainer->state().step, error, options.resume);
    throw;
  }
  if (writes) end_run(*lock, *task, options, training);
  return training;
}

}  // namespace tapestry
