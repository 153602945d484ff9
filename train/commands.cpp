#include "train/commands.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "data/byte_pair.hpp"
#include "data/text.hpp"
#include "train/keys.hpp"
#include "train/latent.hpp"
#include "train/picture.hpp"
#include "train/plot.hpp"
#include "train/shipped_configs.hpp"
#include "train/trainer.hpp"

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

void use_machine_as(const Config& config) {
  if (config[key::threads] > 0) set_num_threads(static_cast<int>(config[key::threads]));
  set_matmul_precision(config[key::precision] == "bf16" ? MatmulPrecision::bfloat16
                                                        : MatmulPrecision::float32);
}

std::int64_t count_parameters(Module& model) {
  std::int64_t count = 0;
  for (const Parameter* parameter : model.parameters()) count += parameter->tensor.size();
  return count;
}

// "decoder.1.cross_attention" -> "1"
std::string number_of(const std::string& path) {
  const std::size_t begin = std::min(path.find_first_of("0123456789"), path.size());
  return path.substr(begin, path.find_first_not_of("0123456789", begin) - begin);
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

void expect_kind(const std::string& kind, const std::vector<std::string>& kinds) {
  if (kind.empty()) return;
  expect_input(!kinds.empty(), "--kind {}: this run's samples are all of one kind", kind);
  expect_input(std::ranges::find(kinds, kind) != kinds.end(),
               "--kind {}: expected one of {}; did you mean {}?", kind, fmt::join(kinds, ", "),
               nearest(kind, kinds));
}

// Where a command's picture goes that no --out names.
std::string in_run(const std::string& run, const std::string& name) {
  return fs::is_directory(run) ? (fs::path(run) / name).string() : name;
}

// Whole or not at all; but a device, a pipe or a link is written to as it is, not replaced.
void write_bytes(const std::string& path, const std::string& bytes) {
  const fs::file_status status = fs::symlink_status(path);
  if (!fs::exists(status) || fs::is_regular_file(status))
    return write_file_atomically(path, {bytes});
  std::ofstream stream(path, std::ios::binary);
  stream << bytes << std::flush;
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot write", path));
}

// What a training came to.
struct Training {
  Metrics metrics;  // of the last evaluation, and of the best model's test; empty: it was stopped
  TrainingState state;
};

// NAME of NAME.csv, NAME.png and NAME.svg, which --out may say with one of these endings.
std::string stem_of(const std::string& out) {
  for (const char* ending : {".csv", ".png", ".svg"})
    if (out.ends_with(ending)) return out.substr(0, out.size() - 4);
  return out;
}

// As PNG and as SVG.
void draw_both(const std::string& out, const std::function<void(const std::string&)>& draw) {
  for (const char* ending : {".png", ".svg"}) {
    const std::string path = stem_of(out) + ending;
    draw(path);
    fmt::print("{}\n", path);
  }
}

// The same, and the numbers behind it as CSV.
void write_table_and_plot(const std::string& out, const std::string& csv,
                          const std::function<void(const std::string&)>& draw) {
  const std::string path = stem_of(out) + ".csv";
  write_bytes(path, csv);
  fmt::print("{}\n", path);
  draw_both(out, draw);
}

Training train_into(const Run& run, const Config& config, const TrainCommand& command) {
  const std::optional<Checkpoint> checkpoint = open_run(run, config, command.resume);
  const std::unique_ptr<Task> task =
      checkpoint ? make_task(*checkpoint, config) : make_task({config});
  task->training_data();

  fs::create_directories(run.folder());
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
    fmt::print("{}: {} parameters, {} training examples, {} threads, into {}{}\n",
               config[key::name], count_parameters(task->model()), task->training_data().size(),
               num_threads(), run.folder(),
               checkpoint ? fmt::format(", from step {}", checkpoint->state.step) : "");
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

// Moves every parameter a little: with biases of 0, features of 0 meet ReLU at its kink, where it
// has no derivative to check.
void leave_kinks(Module& model) {
  Random random(0, Stream::init);
  for (Parameter* parameter : model.parameters()) {
    if (parameter->role == Role::fixed) continue;
    Array value = parameter->value();
    for (double& x : value.mutable_values<double>()) x += 0.01 * random.normal();
  }
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

int eval_command(const EvalCommand& command) {
  const TrainedModel trained = load_trained(command.run, command.overrides, true);
  use_machine_as(trained.config);
  const auto start = std::chrono::steady_clock::now();
  const Dataset* test = command.test ? trained.task->test_data() : nullptr;
  expect_input(test || !command.test, "--test: this task has no test split, beside validation");
  const Dataset& data = test ? *test : trained.task->validation_data();
  const Metrics metrics = evaluate(*trained.task, data, trained.config);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (command.json)
    fmt::print(
        "{}\n",
        MetricsLine{trained.state.step, test ? "test" : "val", metrics, elapsed.count()}.json());
  else
    fmt::print("step {}: {}\n", trained.state.step, show(metrics));
  return 0;
}

int sample_command(const SampleCommand& command) {
  // CLI11's ranges let NaN through.
  expect_input(!std::isnan(command.options.temperature), "--temperature nan: expected a number");
  expect_input(!std::isnan(command.options.top_p), "--top-p nan: expected a number");
  expect_input(!std::isnan(command.options.spread), "--spread nan: expected a number");
  const TrainedModel trained = load_trained(command.run, command.overrides, false);
  use_machine_as(trained.config);
  expect_kind(command.options.kind, trained.task->sample_kinds());
  const Sample sample = trained.task->sample(command.options);
  const std::string& kind = command.options.kind;
  const std::string out = command.out.empty()
                              ? in_run(command.run, kind.empty() ? "samples.png" : kind + ".png")
                              : command.out;
  if (sample.plot) {
    write_table_and_plot(out, sample.text, sample.plot);
  } else if (!sample.picture.empty()) {
    write_bytes(out, to_png(sample.picture));
    fmt::print("{}\n", out);
  } else if (command.out.empty()) {
    fmt::print("{}", sample.text);
  } else {
    write_bytes(out, sample.text);
  }
  return 0;
}

int attention_command(const AttentionCommand& command) {
  const TrainedModel trained = load_trained(command.run, command.overrides, false);
  use_machine_as(trained.config);
  std::vector<std::vector<HeatMap>> drawn;
  std::vector<std::string> layers;
  for (const AttentionMaps& maps :
       trained.task->attention({.prompt = command.prompt, .index = command.index})) {
    const std::int64_t H = maps.weights.dim(0), T = maps.weights.dim(1), S = maps.weights.dim(2);
    layers.push_back(maps.path);
    if (!command.layer.empty() && command.layer != maps.path &&
        command.layer != number_of(maps.path))
      continue;
    expect_input(command.head < H, "--head {}: {} has heads 0 to {}", command.head, maps.path,
                 H - 1);
    std::vector<HeatMap> row;
    if (!maps.image.empty()) row.push_back({.title = "the image", .values = maps.image});
    for (std::int64_t head = 0; head < H; ++head)
      if (command.head < 0 || head == command.head)
        row.push_back({fmt::format("{}, head {}", maps.path, head),
                       maps.weights.select({head}).reshaped({T, S}), maps.queries, maps.keys});
    drawn.push_back(row);
  }
  expect_input(!drawn.empty(), "--layer {}: expected a layer's number or one of {}", command.layer,
               fmt::join(layers, ", "));
  draw_both(command.out.empty() ? in_run(command.run, "attention.png") : command.out,
            [&](const std::string& path) { draw_heat_maps(drawn, path); });
  return 0;
}

int latent_command(const LatentCommand& command) {
  const TrainedModel trained = load_trained(command.run, command.overrides, true);
  use_machine_as(trained.config);
  const Latent latent = trained.task->latent_codes();
  const std::string out = command.out.empty() ? in_run(command.run, "latent.csv") : command.out;
  write_table_and_plot(
      out, latent_csv(latent),
      [scatter = latent_scatter(latent)](const std::string& path) { draw_scatter(scatter, path); });
  return 0;
}

int gradcheck_command(const GradcheckCommand& command) {
  const Config config = load_config(command.config, command.overrides);
  use_machine_as(config);
  const std::unique_ptr<Task> task = make_task({config});
  task->model().convert(DType::float64);
  leave_kinks(task->model());
  const std::int64_t count = std::min<std::int64_t>(2, task->training_data().size());
  Sampler sampler(task->training_data().size(), task->order(),
                  static_cast<std::uint64_t>(config[key::seed]),
                  {.batch = count, .lengths = task->training_data().lengths()});
  Batch batch = task->training_data().batch(sampler.next(count));
  if (batch.inputs.dtype() == DType::float32) batch.inputs = batch.inputs.to(DType::float64);
  const auto loss = [&] {
    Random noise(static_cast<std::uint64_t>(config[key::seed]), Stream::dropout);
    // After any warm-up: every term of the loss counts.
    const Pass pass{.training = true, .step = config[key::steps], .noise = &noise};
    return task->loss(batch, pass).objective;
  };
  const auto results = gradcheck_parameters(loss, task->model().parameters(),
                                            {.directions = 2, .jacobian_limit = 0});
  bool passed = true;
  auto json = nlohmann::ordered_json::array();
  for (const GradcheckResult& result : results) {
    passed &= result.passed;
    if (command.json)
      json.push_back(
          {{"parameter", result.name}, {"error", result.error}, {"passed", result.passed}});
    else
      fmt::print("{:<48} {:.1e}  {}\n", result.name, result.error, result.passed ? "ok" : "WRONG");
  }
  if (command.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"passed", passed}, {"parameters", json}}.dump());
  else
    fmt::print("{} parameters: {}\n", results.size(),
               passed ? "every gradient is right" : "some gradients are wrong");
  return passed ? 0 : 1;
}

int tokenizer_command(const TokenizerCommand& command) {
  std::vector<std::string> texts;
  for (const std::string& file : command.files) texts.push_back(load_text(file).content);
  const BytePairTokenizer tokenizer = BytePairTokenizer::train(
      texts, {.vocabulary = command.vocabulary, .lower_case = command.lower_case});
  write_bytes(command.out, tokenizer.to_json());
  fmt::print("{}: {} tokens\n", command.out, tokenizer.size());
  return 0;
}

int list_command() {
  std::size_t width = 0;
  for (const auto& [name, text] : shipped_configs()) width = std::max(width, name.size());
  for (const auto& [name, text] : shipped_configs()) {
    const Config config = parse_config(text, name, {});
    const std::string first = text.substr(0, text.find('\n'));
    fmt::print("{:<{}}  {}\n", name, width, first.substr(first.find_first_not_of("# ")));
    const std::string& metric = config[key::expected_metric];
    if (metric.empty()) continue;
    const std::string& data = config[key::expected_data];
    fmt::print("{:<{}}  {} {} ({}{}{})\n", "", width, metric, config[key::expected_value], data,
               data.empty() ? "" : ": ", config[key::expected_source]);
  }
  return 0;
}

int config_command(const std::string& config, const std::vector<std::string>& overrides) {
  fmt::print("{}", load_config(config, overrides).explain());
  return 0;
}

}  // namespace tapestry
