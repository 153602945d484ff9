#include "train/tasks/tables/table_task.hpp"

#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/tables/table_metrics.hpp"

namespace tapestry {
namespace {

// With more classes an evaluation keeps no scores, and has no metrics of them.
constexpr std::int64_t most_scored_classes = 100;

enum class NumberKind { scaled, piecewise };

struct TableModelSettings : TabularNetworkOptions {
  NumberKind numbers = NumberKind::piecewise;
  std::int64_t bins = 48;
  TableModelSettings() { number_width = 16; }
};

const SettingsOf<TableModelSettings> model_settings = [] {
  using S = TableModelSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.numbers", &S::numbers,
          "how numbers are read: scaled by quantiles, or embedded by their piecewise-linear "
          "encoding in bins between quantiles",
          {{"scaled", NumberKind::scaled}, {"piecewise", NumberKind::piecewise}}),
      Row("model.bins", &S::bins, "most bins of a number",
          {.low = 2, .high = 1000, .used_if = {key_is("model.numbers", "piecewise")}}),
      Row("model.number_width", &S::number_width, "width of the embedding of a number",
          {.low = 1, .high = 1024, .used_if = {key_is("model.numbers", "piecewise")}}),
      Row("model.category_width", &S::category_width, "width of the embedding of a category",
          {.low = 1, .high = 1024}),
      Row("model.layers", &S::layers, "layers of the perceptron", {.low = 1, .high = 1000}),
      Row("model.width", &S::width, "width of each layer", {.low = 1, .high = 65536}),
      Row("model.dropout", &S::dropout, "dropout of each layer's output", {.low = 0, .high = 0.99}),
      Row("model.members", &S::members,
          "networks of the ensemble, which share all weights but the factors of their inputs and "
          "their last layers (TabM); 1: a single network",
          {.low = 1, .high = 1024})};
}();

TabularNetwork network(const Config& config, const TableData& data) {
  const Given<TableModelSettings> given = model_settings.of(config);
  TabularNetworkOptions options = given;
  options.edges = data.columns().edges(given.bins);
  if (given.numbers == NumberKind::scaled) options.number_width = 0;
  options.categories = data.columns().category_counts();
  options.outputs = data.has_classes() ? std::ssize(data.target().classes) : 1;
  return initialized(config, [&](Random& init) { return TabularNetwork(options, init); });
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  const std::int64_t members = model_settings.of(config).members;
  return members == 1
             ? "a multilayer perceptron that predicts a column of a table"
             : fmt::format("an ensemble of {} perceptrons that predict a column of a table",
                           members);
}

std::vector<ModelKind> kinds() {
  const auto members = [](std::int64_t count) {
    return std::vector{std::pair<std::string, Value>("model.members", count)};
  };
  return {{"single perceptrons", members(1), 2e-3}, {"ensembles of 8", members(8), 2e-3}};
}

TaskSpec spec() {
  return {.name = "table",
          .help = "a perceptron, or an ensemble of them, that predicts a column of a table",
          .describe = description,
          .keys = joined({table_settings.keys(), model_settings.keys()}),
          .make = make_task_of<TableTask>,
          .detect = detect_table,
          .recognize = recognize_table,
          .kinds = kinds,
          .metrics = table_metrics(),
          .samples = table_samples(),
          .predictor = table_predictor(),
          .panels = table_panels,
          .onnx = table_graphs,
          .reads_whole_data = true};
}

const RegisterTask registered(spec);

// Returns targets (B) as (B · M), each M times.
Array repeated(const Array& targets, std::int64_t M) {
  std::vector<std::int32_t> all;
  for (const std::int32_t target : targets.values<std::int32_t>()) all.insert(all.end(), M, target);
  return Array::of(all, {std::ssize(all)});
}

}  // namespace

TableTask::TableTask(const TaskSetup& setup)
    : data_(setup),
      model_(network(setup.config, data_)),
      fits_baselines_(has_own_training_data(setup)) {
  if (!data_.is_read() || setup.whole_data || data_.class_weights() == ClassWeights::none) return;
  setup.config.expect(data_.has_classes(), key::class_weights,
                      "the target is a number; leave out this key");
  const auto labels = data_.splits().train->targets().values<std::int32_t>();
  class_weights_ =
      balanced_weights({labels.begin(), labels.end()}, std::ssize(data_.target().classes));
}

// Of classes the logarithm of the mean probability is computed relative to the largest one, so that
// it is finite.
Array TableTask::predicted(const Array& inputs) const {
  const Tensor y = model_.forward(inputs);  // (B, M, K)
  if (!data_.has_classes()) return mean(y, {1}).value();
  const Tensor p = log_softmax(y), largest = max(p, {1}, Keep::yes);
  const std::vector<std::int64_t> shape{y.dim(0), y.dim(2)};
  return (log(mean(exp(p - largest), {1})) + reshape(largest, shape)).value();
}

Loss TableTask::measured(const Array& y, const Batch& batch) const {
  if (!data_.has_classes()) {
    MetricSums sums;
    add_regression_sums(sums, y, batch.targets);
    return {Array::full({}, sums["loss"].sum), sums};
  }
  Loss loss = classification_loss(y, batch, {});
  add_f1_counts(loss.averages, y, batch.targets);
  if (is_dry_run() || y.dim(1) > most_scored_classes) return loss;
  const Array wide = y.to(DType::float64);
  for (const double score : wide.values<double>()) loss.scored.scores.push_back(std::exp(score));
  const auto targets = batch.targets.values<std::int32_t>();
  loss.scored.targets.assign(targets.begin(), targets.end());
  return loss;
}

// A training minimizes the mean of the members' losses, an evaluation measures their mean.
Loss TableTask::loss(const Batch& batch, const Pass& pass) {
  const std::int64_t M = model_.options.members, K = model_.options.outputs;
  if (!pass.training) return measured(predicted(batch.inputs), batch);
  const Tensor y = model_.forward(batch.inputs, pass.noise);
  const double share = 1 / static_cast<double>(M);
  if (data_.has_classes()) {
    const Array targets = repeated(batch.targets, M);
    const Batch each{
        .inputs = batch.inputs, .targets = targets, .count = batch.count * static_cast<double>(M)};
    Loss loss = classification_loss(reshape(y, {batch.inputs.dim(0) * M, K}), each, class_weights_);
    loss.objective = loss.objective * share;
    return loss;
  }
  const Tensor goals = reshape(Tensor(batch.targets.to(y.dtype())), {batch.targets.dim(0), 1, 1});
  const Tensor total =
      sum(squared_error(y, goals + Tensor(Array::zeros(y.shape(), y.dtype())))) * share;
  return {total, {{"loss", {total.item(), batch.count}}}};
}

// Numbers and masks are inputs as they are, categories one-hot.
std::vector<Baselines> TableTask::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  const std::int64_t numbers = data_.columns().numbers();
  std::vector<std::int32_t> firsts;  // columns of the first category of each
  std::int64_t columns = numbers;
  for (const std::int64_t count : data_.columns().category_counts()) {
    firsts.push_back(static_cast<std::int32_t>(columns));
    columns += count;
  }
  return linear_baselines(
      *this, judged,
      {.outputs = model_.options.outputs,
       .name = "linear model on columns",
       .values_each = static_cast<double>(data_.columns().width()),
       .encode =
           [&](const Dataset& data, std::span<const std::int64_t> examples, bool) {
             const Batch batch = data.batch(examples);
             std::vector<SparseRow> rows(examples.size());
             const float* input = batch.inputs.values<float>().data();
             for (SparseRow& row : rows) {
               for (std::int32_t i = 0; i < numbers; ++i) row.emplace_back(i, *input++);
               for (const std::int32_t first : firsts)
                 row.emplace_back(first + static_cast<std::int32_t>(*input++), 1);
             }
             return batch_of_rows(rows, columns, batch.targets);
           },
       .measure = [&](const Array& outputs,
                      const Batch& batch) { return measured(outputs, batch); }});
}

void TableTask::add_derived_metrics(Metrics& metrics) const {
  if (data_.has_classes()) {
    derive_macro_f1(metrics);
    return;
  }
  derive_regression_metrics(metrics, data_.target().deviation);
}

void TableTask::add_score_metrics(const ScoredExamples& scored, Metrics& metrics) const {
  add_classification_metrics(scored, metrics);
}

}  // namespace tapestry
