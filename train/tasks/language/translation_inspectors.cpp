#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/pairs.hpp"
#include "data/text/tokenizer.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/translation.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

const Key<std::string> translation_prompt = prompt_option(
    "a sentence to translate (required for sentence pairs; default: validation dates)");
const Key<std::int64_t> translation_count = count_option(8, {translation_prompt.is("")});

Tokens prompt_tokens(const ParallelCorpus& corpus, const std::string& sentence) {
  const Tokens tokens = corpus.encode(sentence);
  const std::int64_t length = std::ssize(tokens);
  expect_input(length >= 1 && length <= corpus.context, "--prompt: has {} tokens; expected 1 to {}",
               length, corpus.context);
  return tokens;
}

// Returns the tokens of the prompt, or of the first validation sentence.
Tokens source_tokens(const ParallelCorpus& corpus, const Options& options) {
  if (!options[translation_prompt].empty() || !corpus.validation)
    return prompt_tokens(corpus, options[translation_prompt]);
  const Array tokens =
      corpus.validation->batch(std::array<std::int64_t, 1>{0}).part<SourceTokens>().tokens;
  const auto values = tokens.values<std::int32_t>();
  return {values.begin(), values.end()};
}

Tokens translated(Translation& task, const Tokens& source) {
  return translate(task.model(), one_row(source), {}, task.decoding()).front();
}

// Returns the tokens that the decoder reads while it writes a translation: all of it behind the
// beginning, but for the last token if it fills the context, because nothing is predicted after it.
Tokens tokens_read(const EncoderDecoder& model, Tokens written) {
  written.insert(written.begin(), bos_token);
  const auto most = static_cast<std::size_t>(model.options.target_context);
  if (written.size() > most) written.resize(most);
  return written;
}

Sample sample_translations(Translation& task, const Options& options) {
  const ParallelCorpus& corpus = task.corpus();
  if (!options[translation_prompt].empty())
    return {.text = corpus.decode(
                        translated(task, prompt_tokens(corpus, options[translation_prompt]))) +
                    "\n"};
  expect_input(corpus.validation != nullptr,
               "--prompt: expected a sentence to translate, found none; give one");
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[translation_count], corpus.validation->size());
       ++i) {
    const Batch batch = corpus.validation->batch(std::array{i});
    const GeneratedTexts one = task.generated(batch);
    text += fmt::format("{}\n  {}\n  expected {}\n",
                        corpus.decode(batch.part<SourceTokens>().tokens.values<std::int32_t>()),
                        one.predictions.front(), one.references.front());
  }
  return {.text = text};
}

// Returns the attention for the prompt, or for the first validation sentence, and the model's own
// translation. As in every task, a query is a token that is read.
AttentionMaps attention_of_translation(Translation& task, const Options& options) {
  const ParallelCorpus& corpus = task.corpus();
  const Tokens source = source_tokens(corpus, options);
  const Tokens target = tokens_read(task.model(), translated(task, source));
  const std::vector<std::string> columns = corpus.decode_each(source);
  std::vector<std::string> seen = corpus.decode_each(target);
  seen.front() = "begin";
  AttentionRecorder recorder;
  task.model().decode(one_row(target), task.model().encode(one_row(source), {}));
  AttentionMaps maps = attention_maps(recorder, columns);
  for (AttentionMap& map : maps) {
    if (!map.path.starts_with("decoder")) continue;
    map.queries = seen;
    if (!map.path.ends_with("cross_attention")) map.keys = seen;
  }
  return maps;
}

constexpr std::int64_t most_translated = 128;
constexpr std::ptrdiff_t most_in_group = 8;

std::u32string characters(std::string_view text) {
  std::u32string all;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    all += next.value;
    at += std::max(1, next.bytes);
  }
  return all;
}

// Returns 1 − edits / length, where edits is the Levenshtein distance (1966), and length that of
// the longer text: 1 for equal texts, 0 for texts without a letter in common.
double similarity(const std::u32string& one, const std::u32string& other) {
  std::vector<std::size_t> above(other.size() + 1), row(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j)
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (one[i - 1] != other[j - 1])});
  }
  const auto longer = static_cast<double>(std::max(one.size(), other.size()));
  return longer == 0 ? 1 : 1 - static_cast<double>(row.back()) / longer;
}

// Returns the attention of each layer of the decoder to the source when each token is predicted,
// (L, T, S).
Array alignments_of(const EncoderDecoder& model, const Array& source, const Tokens& predictions) {
  AttentionRecorder recorder;
  model.decode(one_row(tokens_read(model, predictions)), model.encode(source, {}));
  return cross_attention(recorder).value();
}

TranslatedPair translated_pair(Translation& task, const Dataset& pairs, std::int64_t index) {
  const ParallelCorpus& corpus = task.corpus();
  const Batch batch = pairs.batch(std::array{index});
  const Array source = batch.part<SourceTokens>().tokens;
  const Tokens predictions = translate(task.model(), source, {}, task.decoding()).front();
  TranslatedPair pair{.source = corpus.decode_each(source.values<std::int32_t>()),
                      .prediction = corpus.decode_each(predictions),
                      .source_text = corpus.decode(source.values<std::int32_t>()),
                      .prediction_text = corpus.decode(predictions),
                      .reference = batch.part<SourceTokens>().references.front().line,
                      .alignments = alignments_of(task.model(), source, predictions)};
  if (std::ssize(predictions) < task.model().options.target_context)
    pair.prediction.emplace_back("end");
  pair.score = similarity(characters(pair.prediction_text), characters(pair.reference));
  return pair;
}

// --- ONNX ---

using onnx::Graph, onnx::Type, onnx::Value;

Value source_input(Graph& graph, const EncoderDecoderOptions& options) {
  return graph.input({.name = "source",
                      .type = Type::int64,
                      .shape = {"batch", "source_time"},
                      .help = fmt::format("tokens, at most {} in a row; {} fills shorter rows up",
                                          options.source_context, pad_token)});
}

std::shared_ptr<Graph> encoder_graph(const EncoderDecoder& model) {
  auto graph = std::make_shared<Graph>("encoder", "Reads a source, once for all of its target.");
  const Value source = source_input(*graph, model.options);
  graph->output({.name = "encoded",
                 .shape = {"batch", "source_time", model.options.block.width},
                 .help = "the encoded source, which the decoder attends to"},
                onnx::encode(model, source, onnx::padding_of(source, pad_token)));
  return graph;
}

std::shared_ptr<Graph> decoder_graph(const EncoderDecoder& model) {
  auto graph = std::make_shared<Graph>(
      "decoder", "Logits of the next token after each token of a target, given a source.");
  const Value target = graph->input(
      {.name = "target",
       .type = Type::int64,
       .shape = {"batch", "time"},
       .help = fmt::format("tokens, at most {} in a row; {} begins a target, {} ends it",
                           model.options.target_context, bos_token, eos_token)});
  const Value encoded = graph->input({.name = "encoded",
                                      .shape = {"batch", "source_time", model.options.block.width},
                                      .help = "the encoded source"});
  const Value source = source_input(*graph, model.options);
  graph->output({.name = "logits",
                 .shape = {"batch", "time", model.options.target_vocabulary},
                 .help = "of the next token after each; their softmax is its distribution"},
                onnx::decode(model, target, encoded, onnx::padding_of(source, pad_token)));
  return graph;
}

// Returns the texts of all tokens as a JSON list, for models without a tokenizer.
std::string token_texts(const ParallelCorpus& corpus) {
  JsonValue texts = special_tokens;
  for (std::int32_t token = special_tokens.size(); token < corpus.vocabulary; ++token)
    texts.push_back(corpus.decode(std::array{token}));
  return texts.dump();
}

// Translates lines, each a sentence, or a sentence, a tab and its translation, which is not read.
// Sentences of one length are translated together.
std::vector<Prediction> translate_lines(Translation& task,
                                        std::span<const ExampleFields> examples) {
  constexpr std::int64_t at_once = 32;
  const ParallelCorpus& corpus = task.corpus();
  std::vector<Prediction> predictions(examples.size());
  std::map<std::size_t, std::vector<std::pair<std::size_t, Tokens>>> by_length;
  for (std::size_t i = 0; i < examples.size(); ++i) try {
      const std::string_view line = examples[i].front();
      Tokens tokens = corpus.encode(line.substr(0, line.find('\t')));
      expect_input(!tokens.empty() && std::ssize(tokens) <= corpus.context,
                   "has {} tokens; expected 1 to {}", tokens.size(), corpus.context);
      by_length[tokens.size()].emplace_back(i, std::move(tokens));
    } catch (const InputError& error) {
      predictions[i].flaw = error.what();
    }
  for (const auto& [length, sentences] : by_length)
    for (std::int64_t first = 0; first < std::ssize(sentences); first += at_once) {
      const std::int64_t count = std::min(at_once, std::ssize(sentences) - first);
      Tokens all;
      for (const auto& [i, tokens] : std::span(sentences).subspan(first, count))
        all.insert(all.end(), tokens.begin(), tokens.end());
      const Array sources = Array::of(all, {count, static_cast<std::int64_t>(length)});
      const std::vector<Tokens> found = translate(task.model(), sources, {}, task.decoding());
      for (std::int64_t i = 0; i < count; ++i)
        predictions[sentences[first + i].first].cells = {corpus.decode(found[i])};
    }
  return predictions;
}

}  // namespace

Predictor translation_predictor(Translation& task) {
  return {.input = {.kind = PredictorInput::Kind::lines, .fields = {{"text"}}},
          .columns = {{"prediction"}},
          .predict = [&task](std::span<const ExampleFields> examples) {
            return translate_lines(task, examples);
          }};
}

Inspector<Sample> translation_samples() {
  return {{translation_prompt, translation_count}, &sample_translations};
}

Inspector<AttentionMaps> translation_attention() {
  return {{translation_prompt}, &attention_of_translation};
}

// Returns a panel of pairs of the test split, or of the validation split if there is none.
ReportPanels translation_panels(Translation& task) {
  const ParallelCorpus& corpus = task.corpus();
  const Dataset& pairs = corpus.test ? *corpus.test : *corpus.validation;
  std::vector<TranslatedPair> all;
  for (std::int64_t i = 0; i < std::min(pairs.size(), most_translated); ++i)
    all.push_back(translated_pair(task, pairs, i));
  std::ranges::stable_sort(all, std::greater(), &TranslatedPair::score);
  const std::ptrdiff_t half = std::min(most_in_group, std::ssize(all) / 2);
  Translations shown{.split = corpus.test ? "test" : "validation",
                     .score_name = "letters in common, 1 − edits / length",
                     .of = std::ssize(all)};
  std::move(all.end() - half, all.end(), std::back_inserter(shown.worst));
  std::move(all.begin(), all.begin() + std::max<std::ptrdiff_t>(half, 1),
            std::back_inserter(shown.best));
  return {shown};
}

onnx::Models translation_graphs(Translation& task) {
  onnx::Models models = {encoder_graph(task.model()), decoder_graph(task.model())};
  if (!task.metadata().contains("tokenizer"))
    for (const std::shared_ptr<Graph>& graph : models)
      graph->note("vocabulary", token_texts(task.corpus()));
  return models;
}

}  // namespace tapestry
