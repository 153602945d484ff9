#include "train/tasks/language/text_classification.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "autograd/counted.hpp"
#include "data/text/bag_of_words.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

enum class TextNetwork { transformer, decoder, embeddings, lstm, gru };

struct TextClassifierSettings {
  TextNetwork kind = TextNetwork::transformer;
  Readout pooling = Readout::mean;
  std::int64_t vocabulary = 0;
  std::string embeddings{};
};

const Condition is_decoder = key_is("model.kind", "decoder"),
                has_blocks = key_is("model.kind", "transformer", "decoder"),
                has_layers = key_is("model.kind", "transformer", "decoder", "lstm", "gru");

const SettingsOf<TextClassifierSettings> text_classifier_settings = [] {
  using S = TextClassifierSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.kind", &S::kind,
          "kind of network: a transformer encoder; a decoder, which reads from left to right and "
          "is classified at the last token, as language models are; the mean of the tokens' "
          "embeddings, which knows no order; or a recurrent network, whose outputs are averaged",
          {{"transformer", TextNetwork::transformer},
           {"decoder", TextNetwork::decoder},
           {"embeddings", TextNetwork::embeddings},
           {"lstm", TextNetwork::lstm},
           {"gru", TextNetwork::gru}}),
      Row("model.pooling", &S::pooling,
          "what the encoder's classifier reads: the mean of the tokens, or a class token before "
          "them",
          {{"mean", Readout::mean}, {"class", Readout::class_token}},
          {.used_if = {key_is("model.kind", "transformer")}}),
      Row(key::initial_embeddings, &S::embeddings), Row(key::vocabulary, &S::vocabulary)};
}();

std::vector<KeyInfo> text_classification_keys() {
  std::vector<std::string> of_blocks;
  for (const KeyInfo& key : block_keys()) of_blocks.push_back(key.name);
  std::vector<KeyInfo> all = used_with(is_decoder, decoder_only_keys(), of_blocks);
  std::erase_if(all, [](const KeyInfo& key) { return key.name == "model.tied_embeddings"; });
  // also those of a decoder, because some depend on model.positions
  const std::set<std::string> of_layers = {"model.layers", "model.bias"};
  all = used_with(has_blocks, std::move(all),
                  {"model.width", "model.dropout", "model.layers", "model.bias"});
  for (KeyInfo& key : all)
    if (of_layers.contains(key.name)) key.limits.used_if.push_back(has_layers);
  all = joined({all, text_classifier_settings.keys()});
  all.back().limits.used_if.push_back(is_decoder);  // the vocabulary
  return joined({all, labeled_text_settings.keys()});
}

TextClassification::Network make_text_classifier(const Config& config,
                                                 const TextClassificationData& data) {
  const std::int64_t classes = std::ssize(data.class_names());
  config.expect(classes >= 2, key::data_path, "has {}; expected at least two different labels",
                counted(classes, "class", "classes"));
  const TextClassifierSettings own = text_classifier_settings.of(config);
  const Given<TransformerSettings> given = transformer_settings.of(config);
  if (own.kind == TextNetwork::decoder) {
    const TransformerOptions options =
        transformer_options(given, vocabulary_of(config, data.tokenizer()), data.context());
    return initialized(config, [&](Random& init) -> TextClassification::Network {
      return DecoderClassifier(options, classes, init);
    });
  }
  TextClassifierOptions options{
      .tokens = data.tokenizer().size(),
      .context = data.context(),
      .classes = classes,
      .layers = 0,
      .block = {.width = given.block.width, .dropout = given.block.dropout}};
  if (own.kind == TextNetwork::transformer) {
    options.layers = given.layers;
    options.block = block_options(given);
    options.readout = own.pooling;
  }
  if (own.kind == TextNetwork::lstm || own.kind == TextNetwork::gru)
    options.recurrent = recurrent_options(
        given, own.kind == TextNetwork::lstm ? RecurrentKind::lstm : RecurrentKind::gru,
        given.block.width);
  return initialized(config, [&](Random& init) -> TextClassification::Network {
    return TextClassifier(options, init);
  });
}

TextRows rows_of(const TextClassification::Network& network, const Tokenizer& tokenizer) {
  if (const auto* decoder = std::get_if<DecoderClassifier>(&network)) {
    const auto before = tokenizer.before_text();
    return {.padding = decoder->padding(), .before = {before.begin(), before.end()}};
  }
  const auto& encoder = std::get<TextClassifier>(network);
  TextRows rows{.padding = encoder.padding()};
  if (const auto first = encoder.first_token()) rows.before = {*first};
  return rows;
}

std::string text_classifier_description(const Config& config,
                                        const std::map<std::string, std::string>&) {
  switch (text_classifier_settings.of(config).kind) {
    case TextNetwork::transformer:
      return "a transformer encoder that classifies texts";
    case TextNetwork::decoder:
      return "a decoder-only transformer that classifies texts";
    case TextNetwork::embeddings:
      return "a classifier of texts by the mean of their embeddings";
    case TextNetwork::lstm:
      return "an LSTM that classifies texts";
    case TextNetwork::gru:
      return "a GRU that classifies texts";
  }
  throw_unhandled(text_classifier_settings["kind"]);
}

std::vector<MetricInfo> text_classification_metrics() {
  std::vector<MetricInfo> all = classification_metrics();
  all.push_back({"macro_f1", "", MetricInfo::Better::higher,
                 "the mean over classes of F1, the harmonic mean of precision and recall"});
  return all;
}

Pretraining text_pretraining() {
  return {.task = "language-model",
          .kind = text_classifier_settings["kind"],
          .their_kind = "transformer",
          .own_kind = "decoder",
          .old_head = "head",
          .new_head = "score"};
}

// Embeddings have few weights that each text changes, so their rate is higher.
std::vector<ModelKind> text_kinds() {
  const auto kind = [](const std::string& name) {
    return std::vector{std::pair<std::string, Value>("model.kind", name)};
  };
  return {{"averaged embeddings", kind("embeddings"), 1e-2},
          {"transformers", kind("transformer"), 2e-3},
          {"decoders", kind("decoder"), 1e-3}};
}

TaskSpec text_classification_spec() {
  return {
      .name = "text-classification",
      .help = "a transformer, also a language model, or averaged embeddings that classify texts",
      .describe = text_classifier_description,
      .keys = text_classification_keys(),
      .make = make_task_of<TextClassification>,
      .detect = detect_labeled_texts,
      .recognize = recognize_labeled_texts,
      .pretraining = text_pretraining,
      .kinds = text_kinds,
      .metrics = text_classification_metrics(),
      .samples = text_classification_samples(),
      .predictor = text_classification_predictor(),
      .attention = text_classification_attention(),
      .panels = text_classification_panels,
      .onnx = text_classification_graphs,
      .reads_whole_data = true};
}

const RegisterTask registered_text_classification(text_classification_spec);

}  // namespace

TextClassification::TextClassification(const TaskSetup& setup)
    : data_(setup),
      network_(make_text_classifier(setup.config, data_)),
      fits_baselines_(has_own_training_data(setup)) {
  data_.set_rows(rows_of(network_, data_.tokenizer()));
  if (setup.metadata.empty())
    initial_ = set_initial_embeddings(setup.config, data_.tokenizer(), model());
  if (!setup.needs_data) return;
  const std::vector<std::int32_t>& labels = data_.splits().train.labels();
  if (!setup.whole_data && data_.class_weights() == ClassWeights::balanced)
    class_weights_ = balanced_weights(labels, std::ssize(data_.class_names()));
}

Module& TextClassification::model() {
  return std::visit([](Module& model) -> Module& { return model; }, network_);
}

Tensor TextClassification::logits(const Array& tokens, Random* noise) const {
  return std::visit([&](const auto& network) { return network.forward(tokens, noise); }, network_);
}

bool TextClassification::has_attention() const {
  const auto* encoder = std::get_if<TextClassifier>(&network_);
  return !encoder || encoder->options.layers > 0;
}

Loss TextClassification::loss(const Batch& batch, const Pass& pass) {
  const Tensor scores = logits(batch.inputs, pass.training ? pass.noise : nullptr);
  Loss loss =
      classification_loss(scores, batch, pass.training ? class_weights_ : std::vector<double>());
  if (!pass.training) add_f1_counts(loss.averages, scores.value(), batch.targets);
  return loss;
}

// Returns examples as texts, as far as the model reads them.
std::vector<std::string> TextClassification::texts(const Dataset& split,
                                                   std::span<const std::int64_t> examples) const {
  constexpr std::size_t at_once = 256;
  std::vector<std::string> texts;
  for (std::size_t first = 0; first < examples.size(); first += at_once) {
    const Batch batch =
        split.batch(examples.subspan(first, std::min(at_once, examples.size() - first)));
    const std::int64_t T = batch.inputs.dim(1);
    for (std::int64_t row = 0; row < batch.inputs.dim(0); ++row)
      texts.push_back(data_.text(batch.inputs.values<std::int32_t>().subspan(row * T, T)));
  }
  return texts;
}

std::vector<Baselines> TextClassification::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  const std::int64_t V = std::ssize(data_.class_names());
  const std::vector<std::int64_t> lengths = training_data().lengths();
  std::optional<BagOfWords> words;
  return linear_baselines(
      *this, judged,
      {.outputs = V,
       .name = "linear model on words",
       .values_each = std::accumulate(lengths.begin(), lengths.end(), 0.0) /
                      static_cast<double>(lengths.size()),
       .encode =
           [&](const Dataset& data, std::span<const std::int64_t> examples, bool fits) {
             constexpr std::int64_t most_weights = 2'000'000;
             const std::vector<std::string> texts = this->texts(data, examples);
             if (fits) words.emplace(texts, most_weights / V);
             std::vector<SparseRow> rows;
             for (const std::string& text : texts) rows.push_back(words->row(text));
             const std::vector<std::int32_t>& labels =
                 static_cast<const LabeledTextDataset&>(data).labels();
             std::vector<std::int32_t> targets;
             for (const std::int64_t example : examples) targets.push_back(labels[example]);
             return batch_of_rows(rows, words->size(), Array::of(targets, {std::ssize(targets)}));
           },
       .measure =
           [](const Array& outputs, const Batch& batch) {
             Loss loss = classification_loss(outputs, batch, {});
             add_f1_counts(loss.averages, outputs, batch.targets);
             return loss;
           }});
}

void TextClassification::add_derived_metrics(Metrics& metrics) const { derive_macro_f1(metrics); }

}  // namespace tapestry
