#include "train/tasks/memory/recall.hpp"

#include "autograd/argmax.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "train/config/keys.hpp"
#include "train/config/option_keys.hpp"
#include "train/tasks/initialized.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> length{
    "data.length", 32, "items before the question", {.low = 8, .high = 512}};
const Key<std::int64_t> pairs{
    "data.pairs", 8, "of the items, those with a key and a value", {.low = 1, .high = 26}};
const Key<std::int64_t> num_keys{
    "data.keys", 16, "different keys: a-z; at least the pairs", {.low = 2, .high = 26}};
const Key<std::int64_t> num_values{
    "data.values", 16, "different values: 0, 1, …; at least the pairs", {.low = 2, .high = 100}};
const Key<std::int64_t> examples{
    "data.examples", 1'000'000, "training sequences", {.low = 1, .high = 1e9}};
const Key<std::int64_t> held_back{
    "data.held_back", 2000, "sequences to validate on, never trained on", {.low = 1, .high = 1e6}};

const Choice<MemoryKind> kind{"model.memory",
                              MemoryKind::query_key,
                              "how the items are summed up",
                              {{"sum", MemoryKind::sum},
                               {"forgetting", MemoryKind::forgetting},
                               {"recurrent", MemoryKind::recurrent},
                               {"gated", MemoryKind::gated},
                               {"sigmoid-attention", MemoryKind::sigmoid_attention},
                               {"softmax-attention", MemoryKind::softmax_attention},
                               {"query-key", MemoryKind::query_key},
                               {"multi-head", MemoryKind::multi_head}}};
const Key<std::int64_t> width{
    "model.width", 32, "columns of an item and of the memory", {.low = 1, .high = 65536}};
const Key<std::int64_t> heads{
    "model.heads",
    4,
    "of multi-head; must divide the width",
    {.low = 1, .high = 1024, .used_if = {kind.is(MemoryKind::multi_head)}}};
const Key<double> first_gamma{
    "model.gamma",
    0.9,
    "of forgetting: what a step leaves",
    {.low = 1e-3, .high = 0.999, .used_if = {kind.is(MemoryKind::forgetting)}}};
const Key<bool> learn_gamma{"model.learn_gamma",
                            false,
                            "of forgetting: one γ a column, learnt",
                            {.used_if = {kind.is(MemoryKind::forgetting)}}};

std::vector<KeyInfo> keys() {
  return {length, pairs, num_keys, num_values,  examples,   held_back,
          kind,   width, heads,    first_gamma, learn_gamma};
}

Recall sequences(const Config& config, bool is_validation) {
  const RecallOptions options{.length = config[length],
                              .pairs = config[pairs],
                              .keys = config[num_keys],
                              .values = config[num_values],
                              .examples = config[is_validation ? held_back : examples],
                              .seed = seed_of(config),
                              .is_validation = is_validation};
  return with_keys(config, {{"pairs", pairs}}, [&] { return Recall(options); });
}

MemoryNetwork network(const Config& config, const Recall& data) {
  const std::int64_t C = config[width];
  config.expect(config[kind] != MemoryKind::multi_head || C % config[heads] == 0, heads,
                "must divide model.width = {}", C);
  const MemoryNetworkOptions options{
      .vocabulary = data.vocabulary(),
      .classes = config[num_values],
      .memory = {.kind = config[kind],
                 .width = C,
                 .heads = config[heads],
                 .decay = {.gamma = config[first_gamma], .learn = config[learn_gamma]}}};
  return initialised(config, [&](Random& init) { return MemoryNetwork(options, init); });
}

// Of all answers, and of those that stood in the first and in the last quarter of the items.
void count_right(const Recall& data, const Array& logits, const Batch& batch,
                 MetricSums& averages) {
  const std::int64_t T = batch.inputs.dim(1), items = T - 1, V = logits.dim(1);
  const Array scores = logits.to(DType::float32);
  if (is_dry_run()) return;
  for (std::int64_t b = 0; b < batch.inputs.dim(0); ++b) {
    const auto symbols = batch.inputs.values<std::int32_t>().subspan(b * 2 * T, 2 * T);
    const double right = argmax(scores.values<float>().subspan(b * V, V)) == data.answer(symbols);
    const std::int64_t place = 4 * data.answer_position(symbols);
    averages["accuracy"] += {right, 1};
    if (place < items) averages["accuracy_early"] += {right, 1};
    if (place >= 3 * items) averages["accuracy_late"] += {right, 1};
  }
}

// How many items an attention spreads over: T where all weigh the same, 1 where one weighs all,
// (Σ w)² / Σ w² between (Kish 1965's effective size of a weighted sample). weights (B, H, T)
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

const RegisterTask<RecallTask> registered{
    "recall", "a memory that is asked for one of the items that passed", keys};

}  // namespace

RecallTask::RecallTask(const TaskSetup& setup)
    : training_(sequences(setup.config, false)),
      validation_(sequences(setup.config, true)),
      model_(network(setup.config, training_)) {
  key::expect_no_path(setup.config);
}

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
