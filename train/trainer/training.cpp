#include "train/trainer/training.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <thread>

#include "autograd/kernels/matmul.hpp"
#include "data/text/text.hpp"
#include "layers/initial.hpp"
#include "train/config/keys.hpp"
#include "train/distributed/packed.hpp"
#include "train/measure/machine.hpp"
#include "train/run/checksum_recorder.hpp"
#include "train/run/session.hpp"
#include "train/run/signals.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"
#include "train/trainer/callbacks/progress.hpp"
#include "train/trainer/callbacks/sample_recorder.hpp"
#include "train/trainer/callbacks/tensorboard.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/open_run.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

std::atomic<bool> stop_requested = false;

// The first signal ends the step and writes a checkpoint; a second one kills as usual.
void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

// Ends it as a signal does, once the process has run for so many minutes; 0: never.
std::jthread stop_after(double minutes) {
  if (minutes == 0) return {};
  const std::chrono::duration<double> left(60 * minutes - process_age_s());
  if (left.count() <= 0) stop_requested = true;
  return std::jthread([left](const std::stop_token& ended) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, ended, left, [] { return false; });
    if (!ended.stop_requested()) stop_requested = true;
  });
}

void stop_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) handle_signal(signal, request_stop);
  std::signal(SIGPIPE, SIG_IGN);  // what cannot be shown ends no training
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

// Adapters that were learnt at one scale are others at another.
void expect_same_scale(const Config& before, const Config& config) {
  const bool continues = before[key::adapter_rank] > 0 && config[key::adapter_rank] > 0;
  config.expect(!continues || before[key::adapter_alpha] == config[key::adapter_alpha],
                key::adapter_alpha, "the adapters of {} were learnt with {}; leave it out",
                config[key::from], before[key::adapter_alpha]);
}

}  // namespace

std::unique_ptr<Task> begin_task(const Config& config, Weights weights) {
  std::optional<InitialDryRun> dry_run;
  if (weights == Weights::dry_run) dry_run.emplace();
  if (config[key::from].empty())
    return make_task({.config = config, .assumes_text = weights == Weights::dry_run});
  const Checkpoint start = trained_head(config[key::from]);
  expect_same_scale(resolved_config(start.config, start.path + " (its config)", {}), config);
  std::unique_ptr<Task> task = make_task(start, config);
  if (weights == Weights::there)
    restore_parameters(start, task->model(), Adapters::new_or_saved);
  else
    expect_parameters(start, task->model(), Adapters::new_or_saved);
  return task;
}

void check_training_keys(const Config& config, int ranks) {
  const std::int64_t batch = config[key::batch_size], micro_batches = config[key::micro_batches];
  config.expect(batch % micro_batches == 0, key::micro_batches, "must divide train.batch_size = {}",
                batch);
  config.expect(config[key::adapter_rank] == 0 || !config[key::from].empty(), key::adapter_rank,
                "changes weights that were trained before: begin with them by --from RUN");
  config.expect(config[key::early_stopping] == 0 || config[key::eval_every] > 0,
                key::early_stopping, "needs evaluations: set train.eval_every");
  const double factor = config[key::bad_step_factor];
  config.expect(factor == 0 || factor > 1, key::bad_step_factor,
                "steps as usual would be left out: give more than 1, or 0 for none");
  if (micro_batches >= ranks) return;
  config.expect(batch >= ranks, key::batch_size,
                "a step of {} examples cannot be cut for {} ranks; start fewer", batch, ranks);
  std::int64_t least = ranks;
  while (batch % least != 0) ++least;
  config.fail(
      key::micro_batches,
      fmt::format("a step of {} part{} for {} ranks: give at least {}, which divides {} = {}",
                  micro_batches, micro_batches == 1 ? "" : "s", ranks, least, key::batch_size.name,
                  batch));
}

namespace {

// Everything that decides the bits of a training, by names for people.
std::vector<std::pair<std::string, std::string>> what_decides(const Config& config,
                                                              const TrainingState& state) {
  return {{"version", version()},
          {"processor or engine", backends()},
          {"program", library_checksum()},
          {"config", config.toml()},
          {"data", fmt::format("{} examples, {}", state.examples,
                               state.data.empty() ? "drawn" : "checksum " + state.data)},
          {"checkpoint", fmt::format("step {}", state.step)}};
}

// Of two texts' first lines that differ.
std::string first_difference(const std::string& own, const std::string& other) {
  std::istringstream mine(own), theirs(other);
  std::string one, two;
  while (std::getline(mine, one) && std::getline(theirs, two) && one == two) continue;
  return fmt::format("{}, not {}", one, two);
}

void expect_same_everywhere(const Config& config, const TrainingState& state, Ranks& ranks) {
  if (ranks.alone()) return;
  const auto facts = what_decides(config, state);
  Packer packer;
  for (const auto& [name, value] : facts) packer.put(value);
  const std::vector<std::string> all = ranks.gather(packer.take(), "the comparison of the ranks");
  for (int rank = 1; rank < ranks.size(); ++rank) {
    Unpacker first(all[0]), other(all[rank]);
    for (const auto& [name, value] : facts) {
      const auto wanted = first.get<std::string>(), found = other.get<std::string>();
      if (found == wanted) continue;
      ranks.found_by_all();
      throw InputError(fmt::format("{} has another {} than {}: {}; all ranks need the same",
                                   ranks.name(rank), name, ranks.name(0),
                                   first_difference(found, wanted)));
    }
  }
}

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

// Of a model that is not trained whole, how many parameters are.
std::string trained_share(Module& model) {
  std::int64_t fixed = 0;
  for (const Parameter* parameter : model.parameters())
    if (parameter->role == Role::fixed) fixed += parameter->tensor.size();
  return fixed == 0 ? "" : fmt::format(" ({} of them trained)", count_parameters(model) - fixed);
}

// What a training's first lines say.
void announce(const Config& config, const Run& run, Task& task, const TrainingState& state,
              const std::optional<std::string>& backends_before, const TrainingOptions& options) {
  if (options.resume && !backends_before)
    say("{}: no checkpoint and no best model yet: starts over from step 0\n", run.folder());
  if (config[key::precision] == MatmulPrecision::bfloat16 && !has_bfloat16_products())
    say("{} = \"bf16\": this processor has no bfloat16 products: operands are rounded to it "
        "and multiplied in float32, at no gain in speed\n",
        key::precision.name);
  if (!options.quiet)
    say("{}: {} parameters{}, {} training examples, {}, into {}{}\n", config[key::name],
        count_parameters(task.model()), trained_share(task.model()), task.training_data().size(),
        machine(), printable(run.folder()),
        backends_before             ? fmt::format(", from step {}", state.step)
        : config[key::from].empty() ? ""
                                    : ", from the weights of " + config[key::from]);
  if (const std::string remark = task.remark(); !remark.empty()) say("{}\n", remark);
  if (backends_before && !backends_before->empty() && *backends_before != backends())
    say("so far it was trained by {:?}: it goes on by \"{}\", whose last digits differ\n",
        *backends_before, backends());
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
                        const std::vector<Recorder*>& recorders, Ranks& ranks) {
  Training training{
      .metrics = trainer.train(), .signatures = task.signatures(), .state = trainer.state()};
  expect_finite(training.metrics, "validation", task.validation_data(), task, config, ranks);
  if (training.metrics.empty() || task.test_data() == nullptr) return training;
  const MetricsLine tested = test_best(lock, task, config, training.state.elapsed_s, ranks);
  if (tested.values.empty()) return {.metrics = {}, .signatures = {}, .state = training.state};
  expect_finite(tested.values, "test", *task.test_data(), task, config, ranks);
  for (Recorder* recorder : recorders) {
    recorder->write(tested);
    recorder->sync();
  }
  add_as_test(training.metrics, tested.values);
  add_as_test(training.signatures, tested.signatures);
  return training;
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
  std::optional<JsonLinesRecorder> metrics_file;
  std::optional<ChecksumRecorder> checksums;
  std::optional<Progress> progress;
  std::optional<TensorBoardRecorder> tensorboard;
  std::optional<SampleRecorder> samples;
  std::vector<Recorder*> recorders;
  std::optional<Trainer> trainer;
  ranks.agree("reading the data", [&] {
    task = checkpoint ? make_task(*checkpoint, config) : begin_task(config);
    expect_input(ranks.alone() || !task->is_computed_whole(),
                 "{}: each part of a step computes the one graph in full, so that {} ranks gain "
                 "nothing: start one process, whose threads share the work",
                 config[key::name], ranks.size());
    progress.emplace(ProgressOptions{.steps = config[key::steps], .quiet = options.quiet});
    if (writes) recorders = {&metrics_file.emplace(*lock), &checksums.emplace(*lock), &*progress};
    if (writes && config[key::tensorboard])
      recorders.push_back(&tensorboard.emplace(*lock, *task, config));
    if (writes && config[key::samples] && inspectors<Sample>().contains(config[key::task]))
      recorders.push_back(&samples.emplace(*lock, *task, config));
    trainer.emplace(*task, config, run, checkpoint ? &*checkpoint : nullptr, stop_requested, ranks,
                    TrainerOptions{.recorders = recorders,
                                   .lock = writes ? &*lock : nullptr,
                                   .profile = options.profile && writes,
                                   .until = options.until});
  });
  expect_same_everywhere(config, trainer->state(), ranks);
  std::optional<std::string> backends_before;
  if (checkpoint) backends_before = checkpoint->backends;
  std::optional<std::vector<ChangedSetting>> changed;  // none of a run that begins here
  if (checkpoint)
    changed = changes(resolved_config(checkpoint->config, checkpoint->path, {}), config);
  checkpoint.reset();  // its tensors have their places

  // Nothing is refused from here on, and nothing was written before.
  ranks.agree("beginning the run", [&] {
    if (!writes) return;
    if (options.resume) lock->remove_unfinished();
    lock->replace(run.config(), {config.toml_with_origins()});
    record_begin(*lock, trainer->state(), ranks.size(), changed);
  });
  stop_at_signals();
  const std::jthread timer = stop_after(config[key::time_limit]);
  ranks.watch(stop_requested, [name = ranks.name(ranks.rank()),
                               folder = run.folder()](const std::string& missing) {
    complain(fmt::format("{}: {}; what was saved before stays in {}", name, missing, folder));
  });
  announce(config, run, *task, trainer->state(), backends_before, options);
  Training training;
  try {
    training = train_and_test(writes ? &*lock : nullptr, *task, config, *trainer, recorders, ranks);
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
