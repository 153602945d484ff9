#include "train/tasks/language/toy_sequence.hpp"

#include <algorithm>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "data/json.hpp"
#include "data/toys/associative_recall.hpp"
#include "data/toys/toy_sequences.hpp"
#include "train/config/keys.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/decoder_inspectors.hpp"
#include "train/tasks/token_loss.hpp"

namespace tapestry {
namespace {

struct ToySettings : ToyOptions {
  std::string path{};                           // must be empty
  std::optional<ToyTask> kind = ToyTask::sort;  // none: associative recall
  std::int64_t pairs = 2, held_back = 1000;
};

const SettingsOf<ToySettings> toy_settings = [] {
  using S = ToySettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row(key::data_path, &S::path),
      Row(key::seed, &S::seed),
      Row("data.kind", &S::kind, "operation on a sequence",
          {{"sort", ToyTask::sort},
           {"reverse", ToyTask::reverse},
           {"copy", ToyTask::copy},
           {"addition", ToyTask::addition},
           {"modular-addition", ToyTask::modular_addition},
           {"associative-recall", std::nullopt}}),
      Row("data.length", &S::length, "number of symbols per sequence, or of digits per number",
          {.low = 1,
           .high = max_toy_length,
           .used_if = {key_is("data.kind", "sort", "reverse", "copy", "addition",
                              "associative-recall")},
           .advice = "raise this value"}),
      Row("data.alphabet", &S::alphabet,
          "number of different symbols, 0-9, a-z, A-Z and others; the modulus of modular-addition",
          {.low = 2,
           .high = max_toy_symbols,
           .used_if = {key_is("data.kind", "sort", "reverse", "copy", "modular-addition",
                              "associative-recall")}}),
      Row("data.pairs", &S::pairs, "pairs of a key and a value, each of which is asked once",
          {.low = 1, .high = 128, .used_if = {key_is("data.kind", "associative-recall")}}),
      Row("data.examples", &S::examples, "training sequences", {.low = 1, .high = 1e9}),
      Row("data.held_back", &S::held_back,
          "number of validation sequences, none of which is a training sequence",
          {.low = 1, .high = 1e6})};
}();

std::unique_ptr<const PromptDataset> sequences(const Config& config, Split split) {
  const Given<ToySettings> given = toy_settings.of(config);
  given.expect_no_path();
  given.expect(
      given.kind != ToyTask::modular_addition ||
          given.examples + given.held_back <= given.alphabet * given.alphabet,
      "examples",
      "with data.held_back = {} there are more than the {}² different sums; lower one of both",
      given.held_back, given.alphabet);
  ToyOptions options = given;
  options.split = split;
  if (split != Split::train) options.examples = given.held_back;
  return given.checked([&]() -> std::unique_ptr<const PromptDataset> {
    if (given.kind) return std::make_unique<ToySequences>(*given.kind, options);
    return std::make_unique<AssociativeRecall>(given.pairs, options);
  });
}

struct Right {
  MetricSum tokens{}, rows{};
};

// Counts the targets that have the largest of the logits of their position, (…, V) of those that
// are not ignored, and the rows in which all have; greedy decoding from the prompt gives the right
// answer exactly for these.
Right count_right(const Array& logits, const Array& targets) {
  if (is_dry_run()) return {};
  const std::int64_t B = targets.dim(0), T = targets.dim(1), V = logits.dim(-1);
  const std::vector<std::int32_t> predicted = likeliest(logits.reshaped({logits.size() / V, V}));
  const auto target = targets.values<std::int32_t>();
  Right right;
  auto& [tokens, rows] = right;
  auto next = predicted.begin();
  for (std::int64_t b = 0; b < B; ++b) {
    const double before = tokens.count - tokens.sum;
    for (std::int64_t i = b * T; i < (b + 1) * T; ++i)
      if (target[i] != ignored_target) tokens += {*next++ == target[i] ? 1.0 : 0.0, 1};
    rows += {tokens.count - tokens.sum == before ? 1.0 : 0.0, 1};
  }
  return right;
}

// --- inspectors ---

const Key<std::string> toy_prompt =
    prompt_option("a sequence to answer (default: validation examples)");
const Key<std::int64_t> answer_count = count_option(8, {toy_prompt.is("")});

// A prompt with the model's answer.
struct Answered {
  std::string text;     // "31415926>11234569"
  std::string outcome;  // "right"

  std::string line() const { return text + "  " + outcome; }
};

Answered answered(ToySequence& task, const std::string& asked) {
  const PromptDataset& data = task.validation_data();
  const std::string right = data.answer(asked);
  const std::vector<std::int32_t> prompt = data.vocabulary().encode(asked);
  const std::int64_t length = std::ssize(data.vocabulary().encode(right));
  const std::string given = data.vocabulary().decode(std::visit(
      [&](const auto& network) {
        return generate(network, prompt, length, {.temperature = 0}, Random(0, Stream::sample));
      },
      task.network()));
  return {asked + given, outcome(given, right)};
}

Sample sample_answers(ToySequence& task, const Options& options) {
  const PromptDataset& data = task.validation_data();
  if (!options[toy_prompt].empty())
    return {.text = answered(task, data.completed(options[toy_prompt])).line() + "\n"};
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[answer_count], data.size()); ++i)
    text += answered(task, data.prompt(i)).line() + "\n";
  return {.text = text};
}

// Returns the attention to the prompt, or to the first validation sequence, and its right answer.
AttentionMaps answer_attention(ToySequence& task, const Options& options) {
  const PromptDataset& data = task.validation_data();
  const Transformer& model = with_attention(task.network());
  std::string text =
      data.completed(options[toy_prompt].empty() ? data.prompt(0) : options[toy_prompt]);
  text += data.answer(text);
  std::vector<std::int32_t> tokens = data.vocabulary().encode(text);
  tokens.pop_back();  // nothing is predicted after the last token
  std::vector<std::string> labels;
  for (const std::int32_t token : tokens) labels.push_back(data.vocabulary().symbols()[token]);
  return attention_of(model, tokens, labels);
}

TokenDecoder toy_sequence_decoder(ToySequence& task) {
  return [&task](std::span<const std::int32_t> tokens) {
    return task.validation_data().vocabulary().decode(tokens);
  };
}

// Returns panels of validation sequences with the model's own answers; nothing for a recurrent
// network.
ReportPanels toy_sequence_panels(ToySequence& task) {
  const auto* network = std::get_if<Transformer>(&task.network());
  if (!network) return {};
  const PromptDataset& data = task.validation_data();
  const std::int64_t count = std::min<std::int64_t>(6, data.size());
  const auto label = [&](std::int32_t token) { return data.vocabulary().symbols()[token]; };
  ReadExamples read;
  for (std::int64_t i = 0; i < count; ++i) {
    const Answered answer = answered(task, data.prompt(i));
    std::vector<std::int32_t> tokens = data.vocabulary().encode(answer.text);
    const std::int32_t last = tokens.back();  // nothing is predicted after the last token
    tokens.pop_back();
    read.examples.push_back(read_by(*network, tokens, label));
    read.examples.back().expectations.back().actual = label(last);
    read.examples.back().title = answer.line();
  }
  return {read};
}

onnx::Models toy_sequence_graphs(ToySequence& task) {
  onnx::Models models = std::visit(
      [&](const auto& network) {
        return next_token_models(network, task.training_data().context());
      },
      task.network());
  models.front()->note("vocabulary", JsonValue(task.training_data().vocabulary().symbols()).dump());
  return models;
}

std::string toy_description(const Config& config, const std::map<std::string, std::string>&) {
  return fmt::format("a character-level {} trained on the toy task {}",
                     decoder_settings.text("kind", decoder_settings.of(config)),
                     toy_settings.text("kind", toy_settings.of(config)));
}

TaskSpec toy_sequence_spec() {
  using enum MetricInfo::Better;
  return {.name = "toy-sequence",
          .help = "a decoder-only transformer or a recurrent network on synthetic sequences",
          .describe = toy_description,
          .keys = joined({decoder_keys(), toy_settings.keys()}),
          .make = make_task_of<ToySequence>,
          .metrics = {{.name = "loss",
                       .unit = "nats per token",
                       .better = lower,
                       .meaning = "the negative log likelihood of the answer's tokens",
                       .is_per_token = true},
                      {"exact_match", "", higher, "the share of answers that are entirely correct"},
                      {"accuracy", "", higher,
                       "the share of correct answers, if a sequence has several"}},
          .samples = {{toy_prompt, answer_count}, &sample_answers},
          .token_decoder = toy_sequence_decoder,
          .attention = {{toy_prompt}, &answer_attention},
          .panels = toy_sequence_panels,
          .onnx = toy_sequence_graphs};
}

const RegisterTask registered_toy_sequence(toy_sequence_spec);

}  // namespace

ToySequence::ToySequence(const TaskSetup& setup)
    : training_(sequences(setup.config, Split::train)),
      validation_(sequences(setup.config, Split::validation)),
      network_(make_decoder(setup.config, training_->vocabulary().size(), training_->context())) {}

Loss ToySequence::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const auto [hidden, targets] = counted_rows(
      std::visit([&](const auto& network) { return network.hidden(batch.inputs, noise); },
                 network_),
      batch);
  const Tensor logits = logits_of(network_, hidden);
  const Tensor total = cross_entropy(logits, targets, {.mean = false});
  MetricSums averages{{"loss", {total.item(), batch.count}}};
  if (pass.training) return {total, averages};
  const Right right = count_right(logits.value(), batch.targets);
  averages["exact_match"] = right.rows;
  if (training_->asks_several()) averages["accuracy"] = right.tokens;
  return {total, averages};
}

}  // namespace tapestry
