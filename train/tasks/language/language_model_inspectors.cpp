#include <algorithm>
#include <array>

#include "autograd/counted.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/conversation_dataset.hpp"
#include "data/text/labeled_text_dataset.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/run/terminal.hpp"
#include "train/tasks/language/decoder_inspectors.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/text_generator.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option(
    "text to continue, or to analyze (default: none; attention then shows a text that "
    "the model generates)");
const Key<std::string> prompt_file{
    "prompt-file",
    "",
    "a file with the prompt, whose last line end is removed; -: standard input",
    {.used_if = {prompt.is("")}}};
const Key<std::string> prompts{
    "prompts",
    "",
    "a file with a prompt per line; the texts are generated together and written as JSON lines",
    {.used_if = {prompt.is(""), prompt_file.is("")}}};
const Key<std::int64_t> count = count_option("1 text, or 20 names");
const Key<std::int64_t> tokens{"tokens",
                               0,
                               "maximum number of tokens to generate (default: 500, or one name)",
                               {.low = 1, .high = 10000000}};
const Key<std::string> stop{
    "stop", "", "stop before this text; may be repeated", {.repeated = true}};
const Key<std::int64_t> seed = seed_option();

std::string prompt_of(const Options& options) {
  constexpr std::int64_t most_bytes = 1 << 24;
  const std::string& file = options[prompt_file];
  if (file.empty()) return options[prompt];
  std::string text = file == "-" ? read_standard_input(most_bytes) : read_file(file, most_bytes);
  require_utf8(text, file == "-" ? "the standard input" : file);
  for (const char end : {'\n', '\r'})
    if (text.ends_with(end)) text.pop_back();
  return text;
}

TextGenerator writer_of(const LanguageModel& task, const Options& options) {
  return {task,
          {.sampling = sampling::chosen(options, task),
           .seed = static_cast<std::uint64_t>(options[seed]),
           .tokens = options[tokens],
           .stops = options.texts(stop)}};
}

std::vector<std::string> read_prompts(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (const auto line = next_line(rest)) {
    lines.emplace_back(*line);
    expect_input(!line->empty(), "--prompts {}: line {} is empty; expected one prompt per line",
                 path, lines.size());
  }
  expect_input(!lines.empty(), "--prompts {}: is empty; expected one prompt per line", path);
  return lines;
}

// Returns whether the model reads only the last of these tokens.
bool exceeds_context(const LanguageModel& task, const std::vector<std::int32_t>& tokens) {
  return std::holds_alternative<Transformer>(task.network()) && std::ssize(tokens) > task.context();
}

// Returns `each` lines of JSON for each prompt of a file. Throws InputError as read_prompts() does.
Sample sample_together(const LanguageModel& task, const TextGenerator& writer,
                       const std::string& path, std::int64_t each) {
  const std::vector<std::string> begins = read_prompts(path);
  const auto too_long = std::ranges::count_if(begins, [&](const std::string& begin) {
    return exceeds_context(task, writer.first_tokens(begin));
  });
  if (too_long > 0)
    complain(fmt::format("{}: {} longer than the context; the model reads the last {} tokens", path,
                         counted(too_long, "prompt"), task.context()));
  const std::vector<std::string> texts = writer.continued(begins, each);
  Sample sample;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const JsonValue line = {{"prompt", begins[i / each]}, {"text", texts[i]}};
    sample.text += line.dump(-1, ' ', false, JsonValue::error_handler_t::replace) + "\n";
  }
  return sample;
}

// Returns generated texts with "---" between them, names with one per line, or lines of JSON.
Sample sample(LanguageModel& task, const Options& options) {
  sampling::convert_weights(options, task);
  const TextGenerator writer = writer_of(task, options);
  const bool names = task.writes_names();
  const std::string& together = options[prompts];
  const std::int64_t usual = names && together.empty() ? 20 : 1;
  const std::int64_t wanted = options[count] > 0 ? options[count] : usual;
  if (!together.empty()) return sample_together(task, writer, together, wanted);
  const std::string begin = prompt_of(options);
  const std::vector<std::int32_t> first = writer.first_tokens(begin);
  if (exceeds_context(task, first))
    complain(fmt::format("the prompt has {} tokens; the model reads the last {}, its context",
                         first.size(), task.context()));
  return {.stream = [=](const TextSink& sink) {
    for (std::int64_t i = 0; i < wanted; ++i) {
      if (i > 0 && !names) sink("\n---\n");
      sink(begin);
      writer.write(first, i, [&](std::string_view piece) {
        sink(piece);
        return true;
      });
      if (names) sink("\n");
    }
    if (!names) sink("\n");
  }};
}

// Returns the beginning of a generated text, whose attention is shown if there is no prompt.
std::vector<std::int32_t> own_text(const LanguageModel& task, const Transformer& network) {
  constexpr std::int64_t most = 24;
  const auto begin = task.begin_of_text();
  std::vector<std::int32_t> text(begin.begin(), begin.end());
  if (text.empty()) text = {task.end_of_text().value_or(0)};
  Random random(1, Stream::sample);
  const std::vector<std::int32_t> more = generate(network, text, std::min(most, task.context()) - 1,
                                                  {.tokens = task.tokenizer().size()}, random);
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

AttentionMaps attention(LanguageModel& task, const Options& options) {
  const Transformer& transformer = with_attention(task.network());
  const bool names = task.writes_names();
  const std::vector<std::int32_t> read =
      options[prompt].empty() && !names ? own_text(task, transformer)
                                        : task.tokens_of((names ? "\n" : "") + options[prompt]);
  const std::int64_t length = std::ssize(read);
  expect_input(length >= 1 && length <= task.context(), "--prompt: has {}; expected {} to {}",
               counted(length - names, "token"), 1 - names, task.context() - names);
  std::vector<std::string> labels;
  for (const std::int32_t token : read)
    labels.push_back(printable(task.tokenizer().decode(std::array{token})));
  return attention_of(transformer, read, labels);
}

// Returns the text with symbols for spaces and line ends: "·the", "↵".
std::string visible(std::string text) {
  if (text == "\n") return "↵";
  if (text.starts_with(' ')) text.replace(0, 1, "·");
  return printable(text);
}

// The beginning of an example and the token that follows it, without padding and without other
// documents of the row.
struct Beginning {
  std::vector<std::int32_t> tokens;
  std::int32_t next;
};

Beginning beginning(const Batch& batch, std::int64_t most) {
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  const auto* documents = batch.find<DocumentStarts>();
  std::size_t last = 0;  // last token with a target
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (targets[i] != ignored_target &&
        (!documents || documents->starts.values<std::int32_t>()[i] == 0))
      last = i;
  const std::size_t count = std::min<std::size_t>(last + 1, most);
  return {.tokens = {inputs.begin(), inputs.begin() + static_cast<std::int64_t>(count)},
          .next = count <= last ? inputs[count] : targets[last]};
}

// Inputs and targets of the tokens of a text, of which each is predicted once, in rows of at most
// `context` tokens.
struct ScoredRow {
  std::size_t text = 0;
  std::vector<std::int32_t> inputs{}, targets{};
};

// Returns the tokens of a text from the first one that can be predicted on; a name has line ends
// around it.
std::vector<ScoredRow> scored_rows(const LanguageModel& task, std::size_t text,
                                   const std::string& line) {
  std::vector<std::int32_t> tokens = task.tokens_of(line);
  if (task.writes_names()) {
    tokens.insert(tokens.begin(), 0);
    tokens.push_back(0);
  }
  std::vector<ScoredRow> rows;
  const std::int64_t T = task.context();
  for (std::int64_t first = 0; first + 1 < std::ssize(tokens); first += T) {
    const std::int64_t last = std::min(first + T, std::ssize(tokens) - 1);
    rows.push_back({.text = text,
                    .inputs = {tokens.begin() + first, tokens.begin() + last},
                    .targets = {tokens.begin() + first + 1, tokens.begin() + last + 1}});
  }
  return rows;
}

// Adds to the sums the loss of rows, which are computed together.
void add_losses(LanguageModel& task, std::span<const ScoredRow> rows,
                std::vector<MetricSum>& losses) {
  std::vector<const std::vector<std::int32_t>*> inputs;
  for (const ScoredRow& row : rows) inputs.push_back(&row.inputs);
  const Array read = padded_rows(inputs, 0);
  const Tensor logits =
      std::visit([&](const auto& network) { return network.forward(read); }, task.network());
  const std::int64_t T = read.dim(1), V = logits.dim(2);
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    std::vector<std::int32_t> targets = rows[i].targets;
    const auto count = static_cast<double>(targets.size());
    targets.resize(T, ignored_target);
    const Tensor scores = reshape(slice(logits, 0, i, i + 1), {T, V});
    losses[rows[i].text] +=
        {cross_entropy(scores, Array::of(targets, {T}), {.mean = false}).item(), count};
  }
}

// Returns the loss of each text in nats per token, and the number of tokens.
std::vector<Prediction> score_texts(LanguageModel& task, std::span<const ExampleFields> examples) {
  constexpr std::size_t at_once = 32;
  std::vector<Prediction> predictions(examples.size());
  std::vector<ScoredRow> rows;
  for (std::size_t i = 0; i < examples.size(); ++i) try {
      const auto found = scored_rows(task, i, examples[i].front());
      expect_input(!found.empty(), "the text is too short; expected at least two tokens");
      rows.insert(rows.end(), found.begin(), found.end());
    } catch (const InputError& error) {
      predictions[i].flaw = error.what();
    }
  std::ranges::stable_sort(rows, {}, [](const ScoredRow& row) { return row.inputs.size(); });
  std::vector<MetricSum> losses(examples.size());
  for (std::size_t first = 0; first < rows.size(); first += at_once)
    add_losses(task, std::span(rows).subspan(first, std::min(at_once, rows.size() - first)),
               losses);
  for (std::size_t i = 0; i < examples.size(); ++i)
    if (predictions[i].flaw.empty())
      predictions[i].cells = {fmt::format("{}", losses[i].value()),
                              fmt::format("{}", losses[i].count)};
  return predictions;
}

}  // namespace

Predictor language_model_predictor(LanguageModel& task) {
  expect_input(!task.end_of_answer(),
               "this run's model was trained on conversations, which have no lines to predict; use "
               "tapestry chat");
  return {.input = {.kind = PredictorInput::Kind::lines, .fields = {{"text"}}},
          .columns = {{"loss", true}, {"tokens", true}},
          .predict = [&task](std::span<const ExampleFields> examples) {
            return score_texts(task, examples);
          }};
}

Inspector<Sample> language_model_samples() {
  return {
      {prompt, prompt_file, prompts, count, tokens, stop, sampling::temperature, sampling::top_k,
       sampling::top_p, sampling::min_p, sampling::repetition_penalty, sampling::dtype, seed},
      &sample};
}

Inspector<AttentionMaps> language_model_attention() { return {{prompt}, &attention}; }

// Returns a panel of texts of the validation split and the model's predictions after each token;
// nothing for a recurrent network. Throws InputError if a probability is not finite.
ReportPanels language_model_panels(LanguageModel& task) {
  const auto* network = std::get_if<Transformer>(&task.network());
  if (!network) return {};
  const Dataset& texts = task.validation_data();
  const std::int64_t count = std::min<std::int64_t>(task.writes_names() ? 8 : 3, texts.size());
  const auto label = [&](std::int32_t token) {
    return token < task.tokenizer().size() ? visible(task.tokenizer().decode(std::array{token}))
                                           : fmt::format("unused {}", token);
  };
  ReadExamples read;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t example = i * (texts.size() / count);
    const Batch batch = texts.batch(std::array{example});
    const auto [tokens, next] = beginning(batch, readable_tokens(*network, count));
    read.examples.push_back(read_by(*network, tokens, label));
    read.examples.back().expectations.back().actual = label(next);
    read.examples.back().title = fmt::format("validation text {}", example);
  }
  return {read};
}

onnx::Models language_model_graphs(LanguageModel& task) {
  return std::visit([&](const auto& network) { return next_token_models(network, task.context()); },
                    task.network());
}

}  // namespace tapestry
