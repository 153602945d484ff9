#include <algorithm>

#include "autograd/ops/losses.hpp"
#include "data/toys/toy_sequences.hpp"
#include "train/decode/generate.hpp"
#include "train/settings/keys.hpp"
#include "train/task.hpp"
#include "train/tasks/language/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::string> kind{"data.kind",
                            "sort",
                            "what to do with a sequence",
                            {.choices = {"sort", "reverse", "copy", "addition"}}};
const Key<std::int64_t> length{
    "data.length", 8, "symbols of a sequence, or digits of each number", {.low = 1, .high = 512}};
const Key<std::int64_t> alphabet{
    "data.alphabet", 10, "different symbols: 0-9, then a-z", {.low = 2, .high = 36}};
const Key<std::int64_t> examples{
    "data.examples", 100'000, "training sequences", {.low = 1, .high = 1e9}};
const Key<std::int64_t> held_back{
    "data.held_back", 1000, "sequences to validate on, never trained on", {.low = 1, .high = 1e6}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = decoder_only_keys();
  all.insert(all.end(), {kind, length, alphabet, examples, held_back});
  return all;
}

ToySequences sequences(const Config& config, Split split) {
  const std::string& name = config[kind];
  const ToyTask task = name == "sort"      ? ToyTask::sort
                       : name == "reverse" ? ToyTask::reverse
                       : name == "copy"    ? ToyTask::copy
                                           : ToyTask::addition;
  return ToySequences({.task = task,
                       .length = config[length],
                       .alphabet = config[alphabet],
                       .examples = split == Split::train ? config[examples] : config[held_back],
                       .seed = static_cast<std::uint64_t>(config[key::seed]),
                       .split = split});
}

// How many rows of targets are the argmax of their logits throughout. Greedy decoding from the
// prompt gives the right answer exactly when every such step is right.
double exact_matches(const Array& logits, const Array& targets) {
  const std::int64_t B = targets.dim(0), T = targets.dim(1), V = logits.dim(2);
  const Array scores = logits.to(DType::float32);
  const float* score = scores.values<float>().data();
  const auto target = targets.values<std::int32_t>();
  double matches = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    bool right = true;
    for (std::int64_t i = b * T; i < (b + 1) * T; ++i) {
      const std::int32_t wanted = target[i];
      right &= wanted == ignored_target ||
               std::max_element(score + i * V, score + (i + 1) * V) - (score + i * V) == wanted;
    }
    matches += right;
  }
  return matches;
}

class ToySequence final : public Task {
 public:
  explicit ToySequence(const TaskSetup& setup)
      : config_(setup.config),
        training_(sequences(config_, Split::train)),
        validation_(sequences(config_, Split::held_back)),
        model_(make_model()) {
    key::expect_no_path(config_);
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_; }
  const Dataset& validation_data() override { return validation_; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    Averages averages{{"loss", {total.item(), batch.count}}};
    if (!pass.training)
      averages["exact_match"] = {exact_matches(logits.value(), batch.targets),
                                 static_cast<double>(batch.targets.dim(0))};
    return {total, averages};
  }

  Sample sample(const SampleOptions& options) override {
    if (!options.prompt.empty()) return {answer(options.prompt, options), {}};
    const std::int64_t count = std::min(options.count > 0 ? options.count : 8, validation_.size());
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) text += answer(validation_.prompt(i), options);
    return {text, {}};
  }

  // Of the prompt with its right answer.
  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    std::string text = options.prompt.empty() ? validation_.prompt(0) : options.prompt;
    if (!text.ends_with('>')) text += '>';
    text += training_.answer(text);
    text.pop_back();  // nothing is asked of the last symbol
    std::vector<std::string> labels;
    for (const char c : text) labels.emplace_back(1, c);
    return attention_of(model_, training_.vocabulary().encode(text), labels);
  }

 private:
  // "31415926>11234569 right"
  std::string answer(std::string prompt, const SampleOptions& options) {
    if (!prompt.ends_with('>')) prompt += '>';
    const std::string right = training_.answer(prompt);
    Random random(options.seed, Stream::sample);
    SampleOptions greedy = options;
    greedy.temperature = 0;
    const CharVocabulary& vocabulary = training_.vocabulary();
    const std::string given = vocabulary.decode(
        generate(model_, vocabulary.encode(prompt), training_.answer_length(), greedy, random));
    return prompt + given + (given == right ? "  right\n" : "  wrong, expected " + right + "\n");
  }

  Transformer make_model() const {
    Random init(static_cast<std::uint64_t>(config_[key::seed]), Stream::init);
    return Transformer(
        transformer_options(config_, training_.vocabulary().size(), training_.context()), init);
  }

  Config config_;
  ToySequences training_, validation_;
  Transformer model_;
};

const RegisterTask registered("toy-sequence",
                              {"a decoder-only transformer on built-in sequences", keys(),
                               [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                 return std::make_unique<ToySequence>(setup);
                               }});

}  // namespace
}  // namespace tapestry
