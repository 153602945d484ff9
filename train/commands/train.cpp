#include <fmt/ranges.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <limits>
#include <optional>

#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "train/commands/commands.hpp"
#include "train/commands/output.hpp"
#include "train/loop/trainer.hpp"
#include "train/run/version.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr int interrupted_status = 130;

std::atomic<bool> stop_requested = false;

// The first signal ends the step and writes a checkpoint; a second one kills as usual.
void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

std::int64_t count_parameters(Module& model) {
  std::int64_t count = 0;
  for (const Parameter* parameter : model.parameters()) count += parameter->tensor.size();
  return count;
}

void check_training_keys(const Config& config) {
  const std::int64_t batch = config[key::batch_size], parts = config[key::micro_batches];
  config.expect(batch % parts == 0, key::micro_batches, "must divide train.batch_size = {}", batch);
  config.expect(config[key::optimizer] != "adam" || config[key::weight_decay] == 0,
                key::weight_decay, "adam does not decay weights; optim.name = \"adamw\" does");
}

// The checkpoint to go on from, if the folder has one. A folder that holds a run is not written to
// unless it is resumed.
std::optional<Checkpoint> open_run(const Run& run, const Config& config, bool resume) {
  if (!fs::exists(run.checkpoint())) {
    expect_input(resume || !fs::exists(run.metrics()),
                 "{}: holds an unfinished run: --resume goes on with it, another --out keeps it",
                 run.folder());
    return std::nullopt;
  }
  expect_input(resume, "{}: holds a run: --resume goes on with it, another --out keeps it",
               run.folder());
  Checkpoint checkpoint = load_checkpoint(run.checkpoint());
  const Config before = parse_config(checkpoint.config, run.checkpoint() + " (its config)", {});
  const std::vector<std::string> differences = before.differences(config);
  expect_input(differences.empty(), "{}: cannot go on under another config: {}", run.folder(),
               fmt::join(differences, ", "));
  config.expect(config[key::steps] >= checkpoint.state.step, key::steps,
                "{} has done {} already; give as many or more", run.folder(),
                checkpoint.state.step);
  return checkpoint;
}

// What the run's best model comes to on the split that had no part in training or choosing it, as
// "test_loss" and so on.
Metrics test_best(const Run& run, Task& task, const Dataset& test, const Config& config) {
  restore_parameters(load_checkpoint(run.best()), task.model());
  Metrics named;
  for (const auto& [name, value] : evaluate(task, test, config)) named["test_" + name] = value;
  return named;
}

void compare_with_expected(const Config& config, const Metrics& metrics) {
  const std::string& metric = config[key::expected_metric];
  const std::string& data = config[key::expected_data];
  if (metric.empty()) return;
  const std::string& path = config[key::data_path];
  const std::string given = path.empty() ? "built-in" : fs::path(path).filename().string();
  if (!data.empty() && given != data) return;
  const auto reached = metrics.find(metric);
  if (reached == metrics.end())
    fmt::print("expected.metric = \"{}\": the evaluation has no such figure\n", metric);
  else
    fmt::print("{}: {:.4f} reached, {:.4f} expected ({})\n", metric, reached->second,
               config[key::expected_value], config[key::expected_source]);
}

// What a training came to.
struct Training {
  Metrics metrics;  // of the last evaluation, and of the best model's test; empty: it was stopped
  TrainingState state;
};

Training train_into(const Run& run, const Config& config, const TrainCommand& command) {
  const std::optional<Checkpoint> checkpoint = open_run(run, config, command.resume);
  const std::unique_ptr<Task> task =
      checkpoint ? make_task(*checkpoint, config) : make_task({config});
  task->training_data();

  std::error_code failed;
  fs::create_directories(run.folder(), failed);
  if (failed)
    throw std::runtime_error(
        fmt::format("{}: cannot be made a run's folder: {}; give another --out", run.folder(),
                    failed.message()));
  const RunLock lock(run);
  if (!checkpoint) {
    fs::remove(run.best());
    if (command.resume) fmt::print("{}: no checkpoint yet: starting from step 0\n", run.folder());
  }
  write_bytes(run.config(), config.toml());
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  Trainer trainer(*task, config, run, checkpoint ? &*checkpoint : nullptr, stop_requested,
                  {.quiet = command.quiet, .profile = command.profile});
  if (config[key::precision] == "bf16" && !has_bfloat16_products())
    fmt::print(
        "{} = \"bf16\": this processor has no bfloat16 products: operands are rounded to it "
        "and multiplied in float32, at no gain in speed\n",
        key::precision.name);
  if (!command.quiet)
    fmt::print("{}: {} parameters, {} training examples, {}, into {}{}\n", config[key::name],
               count_parameters(task->model()), task->training_data().size(), machine(),
               run.folder(),
               checkpoint ? fmt::format(", from step {}", checkpoint->state.step) : "");
  if (checkpoint && !checkpoint->engines.empty() && checkpoint->engines != engines())
    fmt::print("so far it was trained by {:?}: it goes on by \"{}\", whose last digits differ\n",
               checkpoint->engines, engines());
  Metrics metrics = trainer.train();
  const Dataset* test = task->test_data();
  if (!metrics.empty() && test) metrics.merge(test_best(run, *task, *test, config));
  return {std::move(metrics), trainer.state()};
}

// One of several trainings that differ in their seed alone, into RUN/seed-N.
struct SeedRun {
  Run run;
  Config config;
  TrainCommand command;
};

// Those that are there go on, or are only evaluated, with --resume, and the others begin. Fails
// before any of them starts.
std::vector<SeedRun> seed_runs(const TrainCommand& command, const Config& config, const Run& runs) {
  const std::int64_t first = config[key::seed];
  config.expect(first <= std::numeric_limits<std::int64_t>::max() - command.seeds, key::seed,
                "leaves no room for --seeds {}", command.seeds);
  expect_input(!fs::exists(runs.metrics()), "{}: holds a run of one seed; --out keeps it",
               runs.folder());
  std::vector<SeedRun> all;
  for (std::int64_t seed = first; seed < first + command.seeds; ++seed) {
    SeedRun one{Run(fmt::format("{}/seed-{}", runs.folder(), seed)), config, command};
    one.config.set(key::seed, seed);
    one.command.quiet = true;
    one.command.resume = command.resume && fs::exists(one.run.folder());
    open_run(one.run, one.config, one.command.resume);
    all.push_back(std::move(one));
  }
  return all;
}

int train_seeds(const TrainCommand& command, const Config& config, const Run& runs) {
  std::vector<Metrics> reached;
  for (const SeedRun& one : seed_runs(command, config, runs)) {
    const std::int64_t seed = one.config[key::seed];
    if (!command.quiet) {
      fmt::print("seed {}: into {}\n", seed, one.run.folder());
      std::fflush(stdout);
    }
    const Training training = train_into(one.run, one.config, one.command);
    if (training.metrics.empty()) {
      fmt::print(
          "stopped after step {} of seed {}; the same command with --out {} --resume goes on\n",
          training.state.step, seed, runs.folder());
      return interrupted_status;
    }
    fmt::print("seed {}: {}  ({:.1f} s)\n", seed, show(training.metrics), training.state.elapsed_s);
    std::fflush(stdout);
    reached.push_back(training.metrics);
  }
  const Metrics means = mean_of(reached);
  fmt::print("mean of {} seeds: {}\n", command.seeds, show(means, deviation_of(reached)));
  compare_with_expected(config, means);
  return 0;
}

}  // namespace

int train_command(const TrainCommand& command) {
  std::vector<std::string> overrides = command.overrides;
  if (command.threads > 0) overrides.push_back(fmt::format("train.threads={}", command.threads));
  const Config config = load_config(command.config, overrides);
  check_training_keys(config);
  use_machine_as(config);
  const Run run(command.out.empty() ? Run::default_folder(config[key::name], command.resume)
                                    : command.out);
  if (command.seeds > 0) return train_seeds(command, config, run);
  const Training training = train_into(run, config, command);
  if (training.metrics.empty()) {
    fmt::print("stopped after step {}; tapestry train {} --out {} --resume goes on\n",
               training.state.step, run.config(), run.folder());
    return interrupted_status;
  }
  fmt::print("done after {:.1f} s: {}\n", training.state.elapsed_s, show(training.metrics));
  compare_with_expected(config, training.metrics);
  if (!command.quiet) fmt::print("tapestry sample {} shows what it learnt\n", run.folder());
  return 0;
}

}  // namespace tapestry
