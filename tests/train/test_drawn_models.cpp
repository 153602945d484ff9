#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>

#include "layers/adapters.hpp"
#include "tests/support/drawn_config.hpp"
#include "tests/support/onnx_reference.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/doctor/training_under_test.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/step.hpp"

// Checks models of random configs without training them. A campaign of more configs: tapestry-tests
// -ns -tc='campaign: models*', with TAPESTRY_CONFIGS and TAPESTRY_FIRST as in
// test_drawn_configs.cpp.
namespace tapestry {
namespace {

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

TEST_SUITE_BEGIN("drawn");

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
