#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>

#include "layers/adapters.hpp"
#include "tests/support/drawn_config.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/onnx_reference.hpp"
#include "tests/support/process.hpp"
#include "tests/support/published.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/transformer_settings.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/doctor/training_under_test.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/step.hpp"

// Checks trainings of random configs. The campaign is skipped by default: tapestry-tests -ns
// -tc='campaign: drawn *', with TAPESTRY_CONFIGS for the number of configs and TAPESTRY_FIRST for
// the first of them.
namespace tapestry {
namespace {

// A short training of a random config, and the runs that are compared with it.
class DrawnTraining {
 public:
  explicit DrawnTraining(const DrawnConfig& config) : config_(config) {}

  const DrawnConfig& config() const { return config_; }
  std::string path(const std::string& name) const { return folder_.path(name); }

  // Runs tapestry COMMAND CONFIG WORDS with the random settings.
  Finished run(const std::string& command, const Words& more = {}) const {
    return tapestry_run(Words{command, config_.name()} + config_.words() + more);
  }
  // Runs tapestry train with the random settings, in several processes by mpirun.
  Finished train(const std::string& run, const Words& more = {}, const RunOptions& options = {},
                 int ranks = 1) const {
    const Words words = Words{"train", config_.name()} + config_.words() +
                        Words{"--quiet", "--out", path(run)} + short_training + more;
    if (ranks == 1) return tapestry_run(words, options);
    return run_program(several_tapestries(ranks) + with_sets(words), options);
  }

 private:
  inline static const Words short_training =
      "train.steps=6 train.eval_every=3 train.checkpoint_every=2 train.log_every=1";

  DrawnConfig config_;
  TemporaryFolder folder_;
};

// --- invariants: each function returns how a training violates it, or "" ---

std::string failure(const Finished& finished) {
  if (finished.status == 0) return "";
  return fmt::format("status {}: {}{}", finished.status, finished.out, finished.err);
}

// Returns how a second training with `more` differs from the first.
std::string difference_with(const DrawnTraining& drawn, const Words& more, int ranks = 1) {
  fs::remove_all(drawn.path("again"));
  const std::string failed = failure(drawn.train("again", more, {}, ranks));
  return failed.empty() ? run_difference(drawn.path("again"), drawn.path("run")) : failed;
}

std::string other_threads(const DrawnTraining& drawn) {
  const std::string one = difference_with(drawn, {"--threads", "1"});
  return one.empty() ? difference_with(drawn, {"--threads", "3"}) : one;
}

std::string other_records(const DrawnTraining& drawn) {
  return difference_with(drawn, {"--profile", "train.tensorboard=true", "train.samples=true"});
}

std::string several_processes(const DrawnTraining& drawn) {
  const Config config = drawn.config().config();
  for (int ranks = 2; ranks <= std::min<std::int64_t>(4, config[key::micro_batches]); ++ranks) {
    const std::string difference = difference_with(drawn, {}, ranks);
    if (!difference.empty()) return fmt::format("{} processes: {}", ranks, difference);
  }
  return "";
}

// Kills the training three times as soon as metrics are written, and resumes it.
std::string killed_and_resumed(const DrawnTraining& drawn) {
  const std::string run = drawn.path("killed");
  fs::remove_all(run);
  const auto bytes = fs::file_size(drawn.path("run/metrics.jsonl"));
  for (const double part : {0.1, 0.4, 0.8}) {
    RunOptions kill;
    kill.when = when_holds(run + "/metrics.jsonl", static_cast<std::int64_t>(part * bytes));
    const bool begun = fs::exists(run + "/config.toml");
    const Finished killed = drawn.train("killed", begun ? Strings{"--resume"} : Strings{}, kill);
    if (killed.status != 0 && killed.status != 128 + SIGKILL) return failure(killed);
  }
  const std::string failed = failure(drawn.train("killed", "--resume"));
  return failed.empty() ? run_difference(run, drawn.path("run")) : failed;
}

std::string verified(const DrawnTraining& drawn) {
  return failure(tapestry_run("verify " + drawn.path("run")));
}

std::string planned(const DrawnTraining& drawn) {
  const Finished plan = drawn.run("plan", "--seconds 0 --json train.steps=6");
  if (plan.status != 0) return failure(plan);
  const Json said = Json::parse(plan.out);
  const double held = tensor_bytes(drawn.path("run"));
  if (is_planned(held, said)) return "";
  return fmt::format("{:.0f} bytes held, planned {}", held, said["bytes"].dump());
}

std::string gradients(const DrawnTraining& drawn) { return failure(drawn.run("gradcheck")); }

// Checks that the run's config resolves to itself.
std::string written_config(const DrawnTraining& drawn) {
  const std::string path = drawn.path("run/config.toml");
  const Config config = load_config(path, {});
  return parse_config(config.toml(), "again", {}).toml() == config.toml() ? "" : "another config";
}

// Returns where a run's exported weights differ from those of another run.
std::string weights_difference(const DrawnTraining& drawn, const std::string& run,
                               const std::string& other) {
  std::vector<Safetensors> files;
  for (const std::string& name : {run, other}) {
    const std::string file = drawn.path(fmt::format("{}-beside-{}.safetensors", name, run));
    const std::string failed =
        failure(tapestry_run("export {} --format safetensors --out {}", drawn.path(name), file));
    if (!failed.empty()) return failed;
    files.push_back(read_safetensors(file));
  }
  if (files[0].tensors.size() != files[1].tensors.size()) return "another number of tensors";
  for (std::size_t i = 0; i < files[0].tensors.size(); ++i)
    if (files[0].tensors[i].first != files[1].tensors[i].first ||
        !same_bits(files[0].tensors[i].second, files[1].tensors[i].second))
      return files[0].tensors[i].first;
  return "";
}

// Returns how the logits of an imported run differ from those of the exported run.
std::string logits_difference(const DrawnTraining& drawn, const std::string& imported) {
  const std::vector<std::int32_t> tokens = {0, 1, 2, 0};
  const auto logits = [&](const std::string& run) {
    return logits_of(*load_trained(drawn.path(run), {}, false).task, tokens);
  };
  const double difference = largest_difference(logits("run"), logits(imported));
  return difference < 1e-5 ? "" : fmt::format("logits differ by {:.3g}", difference);
}

// Returns whether imported rows have another order: imported models have Llama's rotary pairs of
// halves.
bool is_reordered(const Config& config) {
  const RotaryPairs pairs = transformer_settings.of(config).block.attention.rotary.pairs;
  return config.has("model.rotary_pairs") && pairs == RotaryPairs::neighbors;
}

// Exported models are imported with the same bits, or reordered with the same logits; others are
// refused in one line.
std::string exported_and_imported(const DrawnTraining& drawn) {
  for (const std::string format : {"huggingface", "gguf"}) {
    const std::string file = drawn.path("for-" + format), back = "from-" + format;
    const Finished written =
        tapestry_run("export {} --format {} --out {}", drawn.path("run"), format, file);
    if (written.status == 2 && lines_of(written.err).size() == 1) continue;
    if (written.status != 0) return failure(written);
    std::string fault = failure(tapestry_run("import {} --out {}", file, drawn.path(back)));
    if (fault.empty())
      fault = is_reordered(drawn.config().config()) ? logits_difference(drawn, back)
                                                    : weights_difference(drawn, back, "run");
    if (!fault.empty()) return format + ": " + fault;
  }
  return "";
}

struct Invariant {
  std::string name;
  std::string (*violation)(const DrawnTraining&);
  bool needs_config = false;  // for commands without --from
};

const std::vector<Invariant> invariants = {
    {"the same bits with 1 and 3 threads", other_threads},
    {"the same bits with a profile, TensorBoard and samples", other_records},
    {"the same bits by several processes", several_processes},
    {"the same bits after kills and resuming", killed_and_resumed},
    {"verify proves the run", verified},
    {"plan counts the bytes", planned},
    {"the gradients are right", gradients, true},
    {"the written config is the same config", written_config},
    {"an exported model comes back", exported_and_imported}};

// Returns how the config violates the invariant, or how its training fails.
std::string violation(const Invariant& invariant, const DrawnConfig& config) {
  const DrawnTraining drawn(config);
  return drawn.train("run").status == 0 ? invariant.violation(drawn) : "";
}

// Trains `count` configs from the number `first` on, and checks them.
void check_drawn(std::int64_t first, std::int64_t count) {
  const ConfigGenerator generator;
  std::int64_t faults = 0;
  for (std::int64_t number = first; number < first + count; ++number) {
    const DrawnTraining drawn(generator.draw(number));
    const Finished finished = drawn.train("run");
    const std::string command = fmt::format("config {}: {} {}", number, drawn.config().name(),
                                            fmt::join(drawn.config().words(), " "));
    REQUIRE_MESSAGE(finished.status == 0, command, "\n", finished.err);
    for (const Invariant& invariant : invariants) {
      if (invariant.needs_config && drawn.config().begins_with_a_run()) continue;
      const std::string fault = invariant.violation(drawn);
      if (fault.empty()) continue;
      ++faults;
      const DrawnConfig smallest = shrink(
          drawn.config(), [&](const DrawnConfig& config) { return violation(invariant, config); });
      CHECK_MESSAGE(false, invariant.name, ": ", fault, "\n", command, "\nsmallest: ",
                    fmt::format("{} {}", smallest.name(), fmt::join(smallest.words(), " ")));
    }
  }
  MESSAGE(count, " configs, ", faults, " faults");
}

// Wrong lines of a config: other keys, types, numbers and nesting.
Strings wrong_lines(const std::string& line) {
  if (line.empty()) return {};
  if (line.starts_with('['))
    return {"[" + line + "]", line.substr(1), "[modle]", line + "\n[task]", line + " = 1"};
  const std::size_t equals = line.find(" = ");
  const std::string key = line.substr(0, equals), value = line.substr(equals + 3);
  const auto with_value = [&](const std::string& other) { return key + " = " + other; };
  const bool is_number = value.find_first_not_of("0123456789.e+-") == std::string::npos,
             is_list = value.starts_with('[');
  return {key.substr(1) + "_ = " + value,
          "\"" + key + " \" = " + value,
          key + ".more = " + value,
          line + "\n" + line,
          line + " 1",
          key,
          with_value(""),
          with_value(value + "]"),
          with_value("\"" + value),
          with_value("{ value = " + value + " }"),
          with_value(is_list ? value + ", 1" : "[[" + value + "]]"),
          with_value(is_number ? "\"1\"" : "-17.5"),
          with_value(is_number ? "nan" : "1979-05-27"),
          with_value(is_number ? "-1e999" : "[{}]"),
          with_value("99999999999999999999"),
          with_value("\"\\u0000\"")};
}

TEST_SUITE_BEGIN("drawn");

TEST_CASE("drawn: trainings of random configs keep all properties" *
          not_sanitized("it takes minutes")) {
  check_drawn(40, 2);
}

TEST_CASE_FIXTURE(ConfigGenerator, "drawn: each wrong line of a config is refused in one line") {
  std::int64_t refused = 0;
  for (std::uint64_t number = 0; number < 7; ++number) {
    const std::string text = draw(number).config().toml();
    REQUIRE(parse_config(text, "drawn.toml", {}).toml() == text);
    const Strings lines = lines_of(text);
    for (std::size_t at = 0; at < lines.size(); ++at)
      for (const std::string& wrong : wrong_lines(lines[at])) {
        Strings changed = lines;
        changed[at] = wrong;
        CAPTURE(lines[at]);
        CAPTURE(wrong);
        const std::string message = message_of(
            [&] { parse_config(fmt::format("{}\n", fmt::join(changed, "\n")), "drawn.toml", {}); });
        CHECK_MESSAGE(message.starts_with("drawn.toml:"), message);
        ++refused;
      }
  }
  CHECK(refused > 1500);
}

TEST_CASE("campaign: drawn trainings keep all properties" * doctest::skip()) {
  check_drawn(from_environment("TAPESTRY_FIRST", 0), from_environment("TAPESTRY_CONFIGS", 200));
}

// Checks models of random configs without training them. A campaign of more configs: tapestry-tests
// -ns -tc='campaign: models*', with TAPESTRY_CONFIGS and TAPESTRY_FIRST as in
// test_drawn_configs.cpp.

std::unique_ptr<Task> moved_task(const Config& config) {
  std::unique_ptr<Task> task = begin_task(config);
  move_parameters(task->model());
  return task;
}

// The loss of a step, the concatenated gradients of its parameters, and the number of its ops.
struct Step {
  double loss = 0;
  std::vector<double> gradients{};
  std::size_t ops = 0;
};

Step step_of(const Config& config, DType dtype, std::int64_t position) {
  const std::unique_ptr<Task> task = moved_task(config);
  task->model().convert(dtype);
  const Dataset& data = task->training_data();
  Sampler sampler = make_sampler(*task, config);
  sampler.seek(position);
  const Batch batch = data.batch(sampler.next(std::min(data.size(), config[key::batch_size])));
  Random noise(seed_of(config), Stream::dropout, static_cast<std::uint64_t>(position));
  Tape tape;
  const Tensor loss = task->loss(dtype == DType::float64 ? in_float64(batch) : batch,
                                 {.training = true, .step = config[key::steps], .noise = &noise})
                          .objective;
  Step step{.loss = loss.value().to(DType::float64).values<double>()[0], .ops = tape.size()};
  const Gradients gradients = tape.backward(loss);
  for (const Parameter* parameter : task->model().parameters())
    if (const Array* gradient = gradients.find(parameter->tensor)) {
      const Array wide = gradient->to(DType::float64);
      step.gradients.insert(step.gradients.end(), wide.values<double>().begin(),
                            wide.values<double>().end());
    }
  return step;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The bound is four roundings for each op; the largest error of 2,000 drawn configs was half of it.
// A ReLU or a maximum near a tie may take the other branch, so one batch of three within the bound
// suffices.
std::string far_from_float64(const Config& config) {
  std::string fault;
  for (std::int64_t batch = 0; batch < 3; ++batch) {
    const std::int64_t position = batch * config[key::batch_size];
    const Step step = step_of(config, DType::float32, position),
               exact = step_of(config, DType::float64, position);
    if (step.gradients.size() != exact.gradients.size()) return "another number of gradients";
    std::vector<double> errors(exact.gradients.size());
    std::ranges::transform(step.gradients, exact.gradients, errors.begin(), std::minus<>());
    const double bound = 0x1p-24 * 4 * static_cast<double>(exact.ops + 4),
                 loss = std::abs(step.loss - exact.loss) / std::abs(exact.loss),
                 gradients = norm(errors) / norm(exact.gradients);
    if (loss < bound && gradients < bound) return "";
    fault += fmt::format("errors of {:.3g} (loss) and {:.3g} (gradients), bound {:.3g}; ", loss,
                         gradients, bound);
  }
  return fault;
}

std::string wrong_in_onnx(const Config& config) {
  const TrainedModel model{config, moved_task(config), {}};
  merge_adapters(model.task->model());  // as in the exported model
  const TemporaryFolder folder;
  std::vector<OnnxModel> exported;
  for (const std::string& file : export_onnx(model, folder.path("exported")))
    exported.push_back(parse_onnx(read_bytes(file)));
  const std::int64_t longest = std::min<std::int64_t>(
      6, config.has("model.context") ? std::get<std::int64_t>(config.value("model.context")) : 6);
  for (const auto& [output, difference] : onnx_differences(exported, *model.task, longest))
    if (!(difference < 1e-6)) return fmt::format("{} differs by {:.3g}", output, difference);
  return "";
}

struct ModelRule {
  std::string name;
  std::string (*violation)(const Config&);
};

const std::vector<ModelRule> model_rules = {
    {"float32 is near float64", far_from_float64},
    {"an ONNX file computes what the model does", wrong_in_onnx}};

// Returns the words of the smallest config that violates the rule.
std::string smallest_words(const ModelRule& rule, const DrawnConfig& drawn) {
  const DrawnConfig smallest = shrink(drawn, [&](const DrawnConfig& config) -> std::string {
    try {
      return rule.violation(config.config());
    } catch (const InputError&) {
      return "";  // another fault: the settings do not fit
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  return fmt::format("{} {}", smallest.name(), fmt::join(smallest.words(), " "));
}

std::string fault_of(const ModelRule& rule, const DrawnConfig& drawn) {
  try {
    return rule.violation(drawn.config());
  } catch (const std::exception& error) {
    return error.what();
  }
}

void check_models(std::int64_t first, std::int64_t count) {
  const ConfigGenerator generator;
  for (std::int64_t number = first; number < first + count; ++number) {
    const DrawnConfig drawn = generator.draw(number);
    for (const ModelRule& rule : model_rules) {
      const std::string fault = fault_of(rule, drawn),
                        smallest = fault.empty() ? "" : smallest_words(rule, drawn),
                        words = fmt::format("{}", fmt::join(drawn.words(), " "));
      CHECK_MESSAGE(fault.empty(), rule.name, ": ", fault, "\nconfig ", number, ": ", drawn.name(),
                    " ", words, "\nsmallest: ", smallest);
    }
  }
}

TEST_CASE("drawn: models of random configs compute the same in float64 and in ONNX" *
          not_sanitized("it takes a minute")) {
  check_models(0, 15);
}

TEST_CASE("campaign: models of drawn configs" * doctest::skip()) {
  check_models(from_environment("TAPESTRY_FIRST", 0), from_environment("TAPESTRY_CONFIGS", 2000));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
