#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/run/terminal.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/text_classification.hpp"

namespace tapestry {
namespace {

const Key<std::string> classified_text =
    prompt_option("a text to classify (default: validation texts)");
const Key<std::int64_t> first_text =
    index_option("index of the validation text", {classified_text.is("")});
const Key<std::int64_t> text_count = count_option(10, {classified_text.is("")});

// A validation or test text, as the model reads it.
struct ReadText {
  LabeledTextDataset::Tokens tokens{};
  std::string text{};
};

ReadText text_of(TextClassification& task, const LabeledTextDataset& texts, std::int64_t example) {
  const Batch batch = texts.batch(std::array{example});
  const auto row = batch.inputs.values<std::int32_t>();
  return {.tokens = {row.begin(), row.end()}, .text = printable_beginning(task.data().text(row))};
}

// Returns the tokens of --prompt, which are cut to the context; this is said.
std::vector<std::int32_t> row_of(TextClassification& task, const std::string& text) {
  expect_input(!text.empty(), "--prompt: the text is empty; give a text to classify");
  try {
    const auto [tokens, is_cut] = task.data().row(text);
    if (is_cut)
      complain(fmt::format("the prompt is longer; the model reads the first {} tokens, its context",
                           tokens.size()));
    return tokens;
  } catch (const InputError& error) {
    throw InputError(fmt::format("--prompt: {}", error.what()));
  }
}

Sample classify(TextClassification& task, const std::string& text) {
  const std::vector<std::int32_t> tokens = row_of(task, text);
  const Array logits = task.logits(one_row(tokens)).value();
  expect_finite(logits);
  return class_probabilities(logits, task.data().class_names(),
                             {.list = "texts", .item = "text", .texts = {text}});
}

// Returns "text 3: red 0.98  right: In the final, …" for each text from --index on.
Sample show_texts(TextClassification& task, const Options& options) {
  if (options.is_set(classified_text)) return classify(task, options[classified_text]);
  const LabeledTextDataset& texts = task.data().splits().validation;
  const std::int64_t first = options[first_text];
  expect_input(first < texts.size(), "--index {}: the validation texts are 0 to {}", first,
               texts.size() - 1);
  const Batch batch = batch_from(texts, first, options[text_count]);
  const std::vector<std::string>& names = task.data().class_names();
  std::string text;
  for (const ClassPrediction& one :
       class_predictions(task.logits(batch.inputs).value(), batch.targets))
    text += fmt::format("text {}: {} {:.2f}  {}: {}\n", first + one.example, names[one.predicted],
                        one.probability, outcome(names[one.predicted], names[one.target]),
                        text_of(task, texts, first + one.example).text);
  return {.text = text};
}

AttentionMaps attention_in(const TextClassification& task, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels) {
  AttentionRecorder recorder;
  task.logits(one_row(tokens));
  return attention_maps(recorder, labels);
}

// Returns the attention between the tokens of --prompt, or of a validation text.
AttentionMaps attention_of_text(TextClassification& task, const Options& options) {
  expect_input(task.has_attention(),
               "this network has no attention to draw; give a run with model.kind = "
               "\"transformer\" or \"decoder\"");
  const std::vector<std::int32_t> tokens =
      options.is_set(classified_text)
          ? row_of(task, options[classified_text])
          : text_of(task, task.data().splits().validation, options[first_text]).tokens;
  return attention_in(task, tokens, task.data().labels(tokens));
}

// Returns a table of the most confident errors.
TablePanel table_of_errors(TextClassification& task, const LabeledTextDataset& texts,
                           std::span<const ClassPrediction> errors) {
  const std::vector<std::string>& names = task.data().class_names();
  TablePanel panel{
      .title = "Errors",
      .caption = fmt::format("The most confident of {} among texts that the model was not trained "
                             "on.",
                             counted(std::ssize(errors), "error")),
      .rows = {{"prediction", "probability", "target", "text"}}};
  constexpr std::size_t most = 30;
  for (const ClassPrediction& one : errors.first(std::min(most, errors.size())))
    panel.rows.push_back({names[one.predicted], fmt::format("{:.2f}", one.probability),
                          names[one.target], text_of(task, texts, one.example).text});
  return panel;
}

// Returns the attention in the first of the predictions, as many as fit on a page.
ReadExamples read_texts(TextClassification& task, const LabeledTextDataset& texts,
                        const ClassPredictions& predictions) {
  constexpr std::ptrdiff_t most = 6;
  constexpr std::size_t most_tokens = 64;
  const std::vector<std::string>& names = task.data().class_names();
  ReadExamples read{.caption =
                        "The most confident errors, and other texts that the model was not "
                        "trained on. Point at a token to see its attention in each layer "
                        "and head."};
  for (const ClassPrediction& one :
       std::span(predictions).first(std::min(most, std::ssize(predictions)))) {
    ReadText text = text_of(task, texts, one.example);
    text.tokens.resize(std::min(most_tokens, text.tokens.size()));
    const std::vector<std::string> labels = task.data().labels(text.tokens);
    read.examples.push_back(
        {.title = fmt::format("text {}: prediction {} {:.2f}, {}", one.example,
                              names[one.predicted], one.probability,
                              one.is_right() ? "right" : "wrong: target " + names[one.target]),
         .maps = attention_in(task, text.tokens, labels)});
  }
  return read;
}

const Key<std::int64_t> best = best_option();

// Returns the logits (N, V) of texts as rows of tokens. Rows of about the same length are computed
// together.
Array logits_of(TextClassification& task, std::span<const TextClassificationData::Row> rows) {
  constexpr std::size_t at_once = 32;
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rows[i].tokens.size(); });
  const std::int64_t V = std::ssize(task.data().class_names());
  Array all = Array::zeros({std::ssize(rows), V}, DType::float32);
  for (std::size_t first = 0; first < order.size(); first += at_once) {
    const auto some = std::span(order).subspan(first, std::min(at_once, order.size() - first));
    std::vector<const LabeledTextDataset::Tokens*> texts;
    for (const std::size_t i : some) texts.push_back(&rows[i].tokens);
    const Array logits =
        task.logits(padded_rows(texts, task.data().rows().padding)).value().to(DType::float32);
    for (std::size_t i = 0; i < some.size(); ++i)
      std::ranges::copy(logits.values<float>().subspan(i * V, V),
                        all.mutable_values<float>().begin() + some[i] * V);
  }
  return all;
}

std::vector<Prediction> predict_texts(TextClassification& task,
                                      std::span<const ExampleFields> examples,
                                      std::int64_t classes) {
  std::vector<Prediction> predictions(examples.size());
  std::vector<TextClassificationData::Row> rows;
  std::vector<std::size_t> of_row;  // indices of the examples
  for (std::size_t i = 0; i < examples.size(); ++i) try {
      rows.push_back(task.data().row(task.data().predicted_text(examples[i].front())));
      of_row.push_back(i);
    } catch (const InputError& error) {
      predictions[i].flaw = error.what();
    }
  if (rows.empty()) return predictions;
  const auto found = class_cells(logits_of(task, rows), task.data().class_names(), classes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    predictions[of_row[i]] = found[i];
    if (task.data().is_unusual(rows[i].tokens))
      predictions[of_row[i]].cells.back() = "more than half of the tokens are unknown";
  }
  return predictions;
}

Predictor text_predictor(TextClassification& task, const Options& options) {
  const std::int64_t classes = options[best];
  return {.input = task.data().predictor_input(),
          .columns = class_columns(task.data().class_names(), classes),
          .predict = [&task, classes](std::span<const ExampleFields> examples) {
            return predict_texts(task, examples, classes);
          }};
}

}  // namespace

Inspector<Predictor> text_classification_predictor() { return {{best}, &text_predictor}; }

Inspector<Sample> text_classification_samples() {
  return {{classified_text, first_text, text_count}, &show_texts};
}

Inspector<AttentionMaps> text_classification_attention() {
  return {{classified_text, first_text}, &attention_of_text};
}

// Returns panels of the confusion matrix and the most confident errors of the test split, or of the
// validation split if there is none, and of a transformer's attention.
ReportPanels text_classification_panels(TextClassification& task) {
  const auto& splits = task.data().splits();
  const LabeledTextDataset& texts = splits.test ? *splits.test : splits.validation;
  ClassPredictions all = class_predictions(
      texts, 64, [&](const Batch& batch) { return task.logits(batch.inputs).value(); });
  const TablePanel matrix = confusion_matrix(all, task.data().class_names());
  sort_errors_first(all);
  const auto right = std::ranges::find_if(all, &ClassPrediction::is_right);
  ReportPanels panels;
  if (task.has_attention()) panels.push_back(read_texts(task, texts, all));
  panels.push_back(matrix);
  if (right != all.begin()) panels.push_back(table_of_errors(task, texts, {all.begin(), right}));
  return panels;
}

onnx::Models text_classification_graphs(TextClassification& task) {
  const TextRows& rows = task.data().rows();
  const auto& class_names = task.data().class_names();
  auto graph = std::make_shared<onnx::Graph>("model", "Classes of texts.");
  std::string help = fmt::format("at most {} in a row; {} fills shorter rows up",
                                 task.data().context(), rows.padding);
  if (!rows.before.empty()) help += fmt::format(", {} begins each", fmt::join(rows.before, " "));
  const onnx::Value tokens = graph->input(
      {.name = "tokens", .type = onnx::Type::int64, .shape = {"batch", "time"}, .help = help});
  graph->output({.name = "logits",
                 .shape = {"batch", std::ssize(class_names)},
                 .help = "of the classes; their softmax is the class's distribution"},
                std::visit([&](const auto& network) { return onnx::forward(network, tokens); },
                           task.network()));
  graph->note("padding_token", fmt::to_string(rows.padding));
  graph->note("class_names", JsonValue(class_names).dump());
  return {graph};
}

}  // namespace tapestry
