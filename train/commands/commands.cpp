#include "train/commands/commands.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "train/commands/output.hpp"
#include "train/draw/latent.hpp"
#include "train/draw/picture.hpp"
#include "train/draw/plot.hpp"
#include "train/loop/trainer.hpp"
#include "train/settings/keys.hpp"
#include "train/settings/shipped_configs.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// "decoder.1.cross_attention" -> "1"
std::string number_of(const std::string& path) {
  const std::size_t begin = std::min(path.find_first_of("0123456789"), path.size());
  return path.substr(begin, path.find_first_not_of("0123456789", begin) - begin);
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

// A checkpoint, a config or metrics, which no sample may replace.
bool is_of_a_run(const std::string& out) {
  const std::string name = fs::path(out).filename().string();
  return name.ends_with(".safetensors") || name == "config.toml" || name == "metrics.jsonl";
}

// Of an image, whose weights are many and small, the largest one is the darkest.
HeatMap map_of(const AttentionMaps& maps, std::int64_t head) {
  const Array weights =
      maps.weights.select({head}).reshaped({maps.weights.dim(1), maps.weights.dim(2)});
  HeatMap map{.title = fmt::format("{}, head {}", maps.path, head),
              .values = weights,
              .row_labels = maps.queries,
              .column_labels = maps.keys};
  if (maps.image.empty()) return map;
  map.darkest = std::ranges::max(weights.values<float>());
  map.title += fmt::format(", to {:.2f}", map.darkest);
  return map;
}

}  // namespace

int eval_command(const EvalCommand& command) {
  const TrainedModel trained = load_trained(command.run, command.overrides, true);
  use_machine_as(trained.config);
  const auto start = std::chrono::steady_clock::now();
  const Dataset* test = command.test ? trained.task->test_data() : nullptr;
  expect_input(test || !command.test,
               "--test: this task has no split but validation; leave --test out to measure it");
  const Dataset& data = test ? *test : trained.task->validation_data();
  const Metrics metrics = evaluate(*trained.task, data, trained.config);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (command.json)
    fmt::print(
        "{}\n",
        MetricsLine{trained.state.step, test ? "test" : "val", metrics, elapsed.count()}.json());
  else
    fmt::print("step {}{}: {}\n", trained.state.step, test ? ", test" : "", show(metrics));
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
  expect_input(!is_of_a_run(command.out), "--out {}: is a file of a run; give another name",
               command.out);
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
    const std::int64_t H = maps.weights.dim(0);
    layers.push_back(maps.path);
    if (!command.layer.empty() && command.layer != maps.path &&
        command.layer != number_of(maps.path))
      continue;
    expect_input(command.head < H, "--head {}: {} has heads 0 to {}", command.head, maps.path,
                 H - 1);
    std::vector<HeatMap> row;
    if (!maps.image.empty()) row.push_back({.title = "the image", .values = maps.image});
    for (std::int64_t head = 0; head < H; ++head)
      if (command.head < 0 || head == command.head) row.push_back(map_of(maps, head));
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
    fmt::print("{} arrays of parameters: {}\n", results.size(),
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
