#include "train/tasks/memory/in_context.hpp"

#include <algorithm>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/memory/memory_settings.hpp"

namespace tapestry {
namespace {

// The sequences and the memory.
struct InContextSettings : InContextOptions {
  std::string path{};  // must be empty
  std::int64_t held_back = 2000;
  MemoryOptions memory{.kind = MemoryKind::linear_attention};
};

const SettingsOf<InContextSettings> in_context_settings = [] {
  using S = InContextSettings;
  using Row = Bound<S>;
  std::vector<Row> all = {
      Row(key::data_path, &S::path),
      Row(key::seed, &S::seed),
      Row("data.pairs", &S::pairs, "pairs of an input and its value before the question",
          {.low = 1, .high = 512}),
      Row("data.dimensions", &S::dimensions, "numbers of an input", {.low = 1, .high = 512}),
      Row("data.examples", &S::examples, "training sequences", {.low = 1, .high = 1e9}),
      Row("data.held_back", &S::held_back, "number of validation sequences",
          {.low = 1, .high = 1e6})};
  for (Row& row : memory_settings(&S::memory)) all.push_back(std::move(row));
  return all;
}();

InContextRegression regressions(const Config& config, Split split) {
  return synthetic_data<InContextRegression, InContextOptions>(in_context_settings, config, split);
}

MemoryRegressor regressor(const Config& config) {
  const Given<InContextSettings> given = in_context_settings.of(config);
  if (given.memory.kind == MemoryKind::multi_head) given.expect_divides("heads", "width");
  const MemoryRegressorOptions options{.inputs = given.dimensions + 1, .memory = given.memory};
  return initialized(config, [&](Random& init) { return MemoryRegressor(options, init); });
}

// --- inspectors ---

const Key<std::int64_t> sequences_shown = count_option(8);

// Returns a row of each of the first validation sequences: y, the model's answer, and that of a
// step of gradient descent.
std::vector<std::vector<std::string>> answers_of(InContextTask& task, std::int64_t count) {
  const InContextRegression& data = task.validation_data();
  const Batch batch = batch_from(data, 0, count);
  const Array given = task.model().forward(batch.inputs).value();
  expect_finite(given);
  const std::vector<double> after_a_step = data.answers_after_a_step(batch.inputs);
  const auto text = [](double y) { return fmt::format("{:.3f}", y); };
  std::vector<std::vector<std::string>> rows;
  for (std::size_t b = 0; b < after_a_step.size(); ++b)
    rows.push_back({text(batch.targets.values<float>()[b]), text(given.values<float>()[b]),
                    text(after_a_step[b])});
  return rows;
}

Sample regression_sample(InContextTask& task, const Options& options) {
  std::string text;
  for (const auto& row : answers_of(task, options[sequences_shown]))
    text += fmt::format("y {}  model {}  gradient step {}\n", row[0], row[1], row[2]);
  return {.text = text};
}

ReportPanels regression_panels(InContextTask& task) {
  TablePanel table{.title = "Answers beside a step of gradient descent",
                   .caption = "The step starts from w = 0 and has the best learning rate.",
                   .rows = {{"y", "model", "gradient step"}}};
  for (auto& row : answers_of(task, 12)) table.rows.push_back(std::move(row));
  return {table};
}

onnx::Models regression_graphs(InContextTask& task) {
  auto graph = std::make_shared<onnx::Graph>("model", "The value of the last input.");
  const onnx::Value items =
      graph->input({.name = "items",
                    .shape = {"batch", "items", task.model().embedding.weight.tensor.dim(1)},
                    .help = "the numbers of an input and its value; the last item is the question, "
                            "with the value 0"});
  graph->output({.name = "answer", .shape = {"batch"}, .help = "the value of the question"},
                onnx::forward(task.model(), items));
  return {graph};
}

std::string regression_description(const Config& config,
                                   const std::map<std::string, std::string>&) {
  return fmt::format("a {} memory that learns a linear function from examples in its context",
                     in_context_settings.text("memory", in_context_settings.of(config)));
}

TaskSpec in_context_spec() {
  using enum MetricInfo::Better;
  return {
      .name = "in-context-regression",
      .help = "a memory that learns a linear function from the pairs of a sequence",
      .describe = regression_description,
      .keys = in_context_settings.keys(),
      .make = make_task_of<InContextTask>,
      .metrics = {{"loss", "", lower, "the mean squared error of the answers"},
                  {"relative_loss", "", lower,
                   "the loss divided by that of one step of gradient descent on the pairs, from "
                   "w = 0, with the best learning rate"}},
      .samples = {{sequences_shown}, &regression_sample},
      .panels = regression_panels,
      .onnx = regression_graphs};
}

const RegisterTask registered_in_context(in_context_spec);

}  // namespace

InContextTask::InContextTask(const TaskSetup& setup)
    : training_(regressions(setup.config, Split::train)),
      validation_(regressions(setup.config, Split::validation)),
      model_(regressor(setup.config)) {}

Loss InContextTask::loss(const Batch& batch, const Pass& pass) {
  const Tensor answers = model_.forward(batch.inputs);
  const Tensor total = sum(squared_error(answers, batch.targets.to(answers.dtype())));
  MetricSums averages{{"loss", {total.item(), batch.count}}};
  if (pass.training || is_dry_run()) return {total, averages};
  MetricSum& relative = averages["relative_loss"];
  relative.sum = total.item();
  const std::vector<double> after_a_step =
      validation_.answers_after_a_step(batch.inputs.to(DType::float32));
  for (std::size_t b = 0; b < after_a_step.size(); ++b) {
    const double error = after_a_step[b] - batch.targets.to(DType::float32).values<float>()[b];
    relative.count += error * error;
  }
  return {total, averages};
}

}  // namespace tapestry
