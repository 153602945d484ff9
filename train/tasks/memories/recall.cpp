#include "data/toys/recall.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>

#include "autograd/ops/losses.hpp"
#include "layers/models/memory.hpp"
#include "train/settings/keys.hpp"
#include "train/task.hpp"

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

const Key<std::string> kind{
    "model.memory", "query-key", "how the items are summed up", {.choices = memory_kinds()}};
const Key<std::int64_t> width{
    "model.width", 32, "columns of an item and of the memory", {.low = 1, .high = 65536}};
const Key<std::int64_t> heads{
    "model.heads", 4, "of multi-head; must divide the width", {.low = 1, .high = 1024}};
const Key<double> first_gamma{
    "model.gamma", 0.9, "of forgetting: what a step leaves", {.low = 1e-3, .high = 0.999}};
const Key<bool> learn_gamma{"model.learn_gamma", false, "of forgetting: one γ a column, learnt"};

Recall sequences(const Config& config, bool is_held_back) {
  return Recall({.length = config[length],
                 .pairs = config[pairs],
                 .keys = config[num_keys],
                 .values = config[num_values],
                 .examples = config[is_held_back ? held_back : examples],
                 .seed = static_cast<std::uint64_t>(config[key::seed]),
                 .held_back = is_held_back});
}

MemoryNetwork network(const Config& config, const Recall& data) {
  const std::int64_t C = config[width];
  config.expect(config[kind] != "multi-head" || C % config[heads] == 0, heads,
                "must divide model.width = {}", C);
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  return MemoryNetwork(
      {.vocabulary = data.vocabulary(),
       .classes = config[num_values],
       .memory = {.kind = config[kind],
                  .width = C,
                  .heads = config[heads],
                  .decay = {.gamma = config[first_gamma], .learn = config[learn_gamma]}}},
      init);
}

std::int64_t likeliest(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

class RecallTask final : public Task {
 public:
  explicit RecallTask(const TaskSetup& setup)
      : training_(sequences(setup.config, false)),
        validation_(sequences(setup.config, true)),
        model_(network(setup.config, training_)) {
    key::expect_no_path(setup.config);
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_; }
  const Dataset& validation_data() override { return validation_; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(batch.inputs);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    Averages averages{{"loss", {total.item(), batch.count}}};
    if (!pass.training) {
      count_right(logits.value(), batch, averages);
      measure_spread(batch.inputs, averages);
    }
    return {total, averages};
  }

  Sample sample(const SampleOptions& options) override {
    if (!options.prompt.empty()) return {show(validation_.encode(options.prompt)), {}};
    const std::int64_t count = std::min(options.count > 0 ? options.count : 4, validation_.size());
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) text += show(validation_.symbols(i));
    return {text, {}};
  }

  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    const Recall::Symbols symbols =
        options.prompt.empty() ? validation_.symbols(0) : validation_.encode(options.prompt);
    const std::vector<std::string> words = validation_.words(symbols);
    const Array weights = model_.weights(one_row(symbols));  // (1, H, T)
    expect_input(!weights.empty(), "this run's memory has no attention to draw");
    return {
        {"memory", weights.reshaped({weights.dim(1), 1, weights.dim(2)}), {words.back()}, words}};
  }

 private:
  // Of all answers, and of those that stood in the first and in the last quarter of the items.
  void count_right(const Array& logits, const Batch& batch, Averages& averages) const {
    const std::int64_t T = batch.inputs.dim(1), items = T - 1, V = logits.dim(1);
    const Array scores = logits.to(DType::float32);
    for (std::int64_t b = 0; b < batch.inputs.dim(0); ++b) {
      const auto symbols = batch.inputs.values<std::int32_t>().subspan(b * 2 * T, 2 * T);
      const double right =
          likeliest(scores.values<float>().subspan(b * V, V)) == validation_.answer(symbols);
      const std::int64_t place = 4 * validation_.answer_position(symbols);
      averages["accuracy"] += {right, 1};
      if (place < items) averages["accuracy_early"] += {right, 1};
      if (place >= 3 * items) averages["accuracy_late"] += {right, 1};
    }
  }

  // How many items an attention spreads over: T where all weigh the same, 1 where one weighs all,
  // (Σ w)² / Σ w² between (Kish 1965's effective size of a weighted sample).
  void measure_spread(const Array& inputs, Averages& averages) const {
    const Array weights = model_.weights(inputs).to(DType::float32);  // (B, H, T)
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

  static Array one_row(const Recall::Symbols& symbols) {
    return Array::of(symbols, {1, std::ssize(symbols) / 2, 2});
  }

  // ". c7 . a12 a?  12 right", and under it what an attention looked at.
  std::string show(const Recall::Symbols& symbols) const {
    const Array inputs = one_row(symbols);
    const Array logits = model_.forward(inputs).value();
    const std::int64_t given = likeliest(logits.values<float>()),
                       right = validation_.answer(symbols);
    std::string text =
        fmt::format("{}  {} {}\n", validation_.text(symbols), given,
                    given == right ? "right" : fmt::format("wrong, expected {}", right));
    const Array weights = model_.weights(inputs);  // (1, H, T)
    const std::vector<std::string> words = validation_.words(symbols);
    const std::int64_t T = std::ssize(words);
    for (std::int64_t row = 0; row < weights.size() / T; ++row)
      text += "    " + heaviest(words, weights.values<float>().subspan(row * T, T)) + "\n";
    return text;
  }

  // "a12 0.98  c7 0.01  . 0.00": the items that weigh most.
  static std::string heaviest(const std::vector<std::string>& words,
                              std::span<const float> weights) {
    std::vector<std::size_t> order(words.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return weights[i]; });
    std::string text;
    for (const std::size_t i : order | std::views::take(3))
      text += fmt::format("{}{} {:.2f}", text.empty() ? "" : "  ", words[i], weights[i]);
    return text;
  }

  Recall training_, validation_;
  MemoryNetwork model_;
};

const RegisterTask registered("recall", {"a memory that is asked for one of the items that passed",
                                         {length, pairs, num_keys, num_values, examples, held_back,
                                          kind, width, heads, first_gamma, learn_gamma},
                                         [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                           return std::make_unique<RecallTask>(setup);
                                         }});

}  // namespace
}  // namespace tapestry
