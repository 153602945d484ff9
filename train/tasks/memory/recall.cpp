#include "train/tasks/memory/recall.hpp"

#include <algorithm>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "train/config/keys.hpp"
#include "train/config/settings.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/memory/memory_settings.hpp"

namespace tapestry {
namespace {

// The items and the memory.
struct RecallSettings : RecallOptions {
  std::string path{};  // must be empty
  std::int64_t held_back = 2000;
  MemoryOptions memory{};
};

const SettingsOf<RecallSettings> settings = [] {
  using S = RecallSettings;
  using Row = Bound<S>;
  std::vector<Row> all = {
      Row(key::data_path, &S::path),
      Row(key::seed, &S::seed),
      Row("data.length", &S::length, "items before the question", {.low = 8, .high = 512}),
      Row("data.pairs", &S::pairs, "items that have a key and a value", {.low = 1, .high = 26}),
      Row("data.keys", &S::keys, "different keys, a-z; at least data.pairs",
          {.low = 2, .high = 26}),
      Row("data.values", &S::values, "different values, 0, 1, …; at least data.pairs",
          {.low = 2, .high = 100}),
      Row("data.examples", &S::examples, "training sequences", {.low = 1, .high = 1e9}),
      Row("data.held_back", &S::held_back,
          "number of validation sequences, none of which is a training sequence",
          {.low = 1, .high = 1e6})};
  for (Row& row : memory_settings(&S::memory)) all.push_back(std::move(row));
  return all;
}();

Recall sequences(const Config& config, Split split) {
  return synthetic_data<Recall, RecallOptions>(settings, config, split);
}

MemoryNetwork network(const Config& config, const Recall& data) {
  const Given<RecallSettings> given = settings.of(config);
  if (given.memory.kind == MemoryKind::multi_head) given.expect_divides("heads", "width");
  const MemoryNetworkOptions options{
      .vocabulary = data.vocabulary(), .classes = given.values, .memory = given.memory};
  return initialized(config, [&](Random& init) { return MemoryNetwork(options, init); });
}

// Adds the accuracy of all answers, and of those whose position is in the first and in the last
// quarter of the items.
void count_right(const Recall& data, const Array& logits, const Batch& batch,
                 MetricSums& averages) {
  if (is_dry_run()) return;
  const std::int64_t T = batch.inputs.dim(1), items = T - 1;
  const std::vector<std::int32_t> predicted = likeliest(logits);
  for (std::int64_t b = 0; b < batch.inputs.dim(0); ++b) {
    const auto symbols = batch.inputs.values<std::int32_t>().subspan(b * 2 * T, 2 * T);
    const double right = predicted[b] == data.answer(symbols);
    const std::int64_t place = 4 * data.answer_position(symbols);
    averages["accuracy"] += {right, 1};
    if (place < items) averages["accuracy_early"] += {right, 1};
    if (place >= 3 * items) averages["accuracy_late"] += {right, 1};
  }
}

// Adds the number of items over which attention spreads, from weights (B, H, T): (Σ w)² / Σ w², the
// effective sample size (Kish 1965), which is T if all weights are equal, and 1 if all but one are
// 0.
void measure_spread(const Array& weights, MetricSums& averages) {
  if (weights.empty()) return;
  const std::int64_t T = weights.dim(2);
  for (std::int64_t row = 0; row < weights.size() / T; ++row) {
    double sum = 0, squares = 0;
    for (const double weight : weights.values<float>().subspan(row * T, T)) {
      sum += weight;
      squares += weight * weight;
    }
    averages["attended"] += {sum * sum / squares, 1};
  }
}

// --- inspectors ---

const Key<std::string> prompt =
    prompt_option("items and a question: \". c7 . a12 a?\" (default: validation examples)");
const Key<std::int64_t> count = count_option(4, {prompt.is("")});

Array one_example(const Recall::Symbols& symbols) {
  return Array::of(symbols, {1, std::ssize(symbols) / 2, 2});
}

// Returns the items with the largest weights: "a12 0.98  c7 0.01  . 0.00".
std::string heaviest(const std::vector<std::string>& words, std::span<const float> weights) {
  std::string text;
  for (const std::int32_t i : largest(weights, 3))
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : "  ", words[i], weights[i]);
  return text;
}

// Returns ". c7 . a12 a?  12 right", and below it the largest weights of each head.
std::string answered(RecallTask& task, const Recall::Symbols& symbols) {
  const Recall& data = task.validation_data();
  const Array inputs = one_example(symbols);
  const std::string given = std::to_string(likeliest(task.model().forward(inputs).value()).front());
  std::string text = fmt::format("{}  {} {}\n", data.text(symbols), given,
                                 outcome(given, std::to_string(data.answer(symbols))));
  const Array weights = task.model().weights(inputs);  // (1, H, T)
  const std::vector<std::string> words = data.words(symbols);
  const std::int64_t T = std::ssize(words);
  for (std::int64_t row = 0; row < weights.size() / T; ++row)
    text += "    " + heaviest(words, weights.values<float>().subspan(row * T, T)) + "\n";
  return text;
}

Sample sample(RecallTask& task, const Options& options) {
  const Recall& data = task.validation_data();
  if (!options[prompt].empty()) return {.text = answered(task, data.encode(options[prompt]))};
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[count], data.size()); ++i)
    text += answered(task, data.symbols(i));
  return {.text = text};
}

AttentionMaps attention(RecallTask& task, const Options& options) {
  const Recall& data = task.validation_data();
  const Recall::Symbols symbols =
      options[prompt].empty() ? data.symbols(0) : data.encode(options[prompt]);
  const std::vector<std::string> words = data.words(symbols);
  const Array weights = task.model().weights(one_example(symbols));  // (1, H, T)
  expect_input(
      !weights.empty(),
      "this run's memory has no attention to draw; give a run with model.memory = \"multi-head\"");
  return {{.path = "memory",
           .weights = weights.reshaped({weights.dim(1), 1, weights.dim(2)}),
           .queries = {words.back()},
           .keys = words}};
}

// Returns a panel of the fraction of right answers by the number of items since the answer.
ReportPanels panels(RecallTask& task) {
  constexpr std::int64_t at_once = 256;
  const Recall& data = task.validation_data();
  std::vector<std::int64_t> right;
  RecallByAge remembered;
  for (std::int64_t first = 0; first < data.size(); first += at_once) {
    const Batch batch = batch_from(data, first, at_once);
    const Array logits = task.model().forward(batch.inputs).value();  // (B, V)
    const std::vector<std::int32_t> predicted = likeliest(logits);
    const std::int64_t T = batch.inputs.dim(1);
    right.resize(T - 1);
    remembered.asked.resize(T - 1);
    remembered.chance = 1 / static_cast<double>(logits.dim(1));
    for (std::int64_t b = 0; b < logits.dim(0); ++b) {
      const auto symbols = batch.inputs.values<std::int32_t>().subspan(b * 2 * T, 2 * T);
      const std::int64_t age = T - 2 - data.answer_position(symbols);  // 0: the last item
      right[age] += predicted[b] == data.answer(symbols);
      ++remembered.asked[age];
    }
  }
  for (std::size_t age = 0; age < right.size(); ++age)
    remembered.shares.push_back(
        static_cast<double>(right[age]) /
        static_cast<double>(std::max<std::int64_t>(1, remembered.asked[age])));
  return {remembered};
}

onnx::Models graphs(RecallTask& task) {
  auto graph = std::make_shared<onnx::Graph>("model", "The value of the key that is asked for.");
  const onnx::Value symbols =
      graph->input({.name = "symbols",
                    .type = onnx::Type::int64,
                    .shape = {"batch", "items", std::int64_t{2}},
                    .help = "key and value of each item; the last item is the query"});
  graph->output({.name = "logits",
                 .shape = {"batch", task.model().readout.layers.back().weight.tensor.dim(0)},
                 .help = "of the values; their softmax is the answer's distribution"},
                onnx::forward(task.model(), symbols));
  return {graph};
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  return fmt::format("a {} memory of width {} that is asked for one of the items that passed",
                     settings.text("memory", settings.of(config)),
                     settings.of(config).memory.width);
}

TaskSpec spec() {
  using enum MetricInfo::Better;
  return {.name = "recall",
          .help = "a model with a memory that answers a question about one of the items before it",
          .describe = description,
          .keys = settings.keys(),
          .make = make_task_of<RecallTask>,
          .metrics =
              {{"loss", "nats", lower, "the negative log likelihood of the answer"},
               {"accuracy", "", higher, "the share of correct answers"},
               {"accuracy_early", "", higher,
                "the share of correct answers among those in the first quarter of the items"},
               {"accuracy_late", "", higher,
                "the share of correct answers among those in the last quarter of the items"},
               {"attended", "items", neither,
                "the effective number of items that the attention spreads over; 1: a single item"}},
          .samples = {{prompt, count}, &sample},
          .attention = {{prompt}, &attention},
          .panels = panels,
          .onnx = graphs};
}

const RegisterTask registered(spec);

}  // namespace

RecallTask::RecallTask(const TaskSetup& setup)
    : training_(sequences(setup.config, Split::train)),
      validation_(sequences(setup.config, Split::validation)),
      model_(network(setup.config, training_)) {}

Loss RecallTask::loss(const Batch& batch, const Pass& pass) {
  const Tensor logits = model_.forward(batch.inputs);
  const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
  MetricSums averages{{"loss", {total.item(), batch.count}}};
  if (!pass.training) {
    count_right(validation_, logits.value(), batch, averages);
    measure_spread(model_.weights(batch.inputs).to(DType::float32), averages);
  }
  return {total, averages};
}

}  // namespace tapestry
