#include "train/tasks/language/text_classification.hpp"

#include "autograd/counted.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

enum class TextNetwork { transformer, embeddings };
const Choice<TextNetwork> text_network{
    "model.kind",
    TextNetwork::transformer,
    "kind of network: a transformer encoder, or the mean of the tokens' embeddings, which knows no "
    "order",
    {{"transformer", TextNetwork::transformer}, {"embeddings", TextNetwork::embeddings}}};
const Condition is_encoder = text_network.is(TextNetwork::transformer);
const Choice<Readout> text_pooling{
    "model.pooling",
    Readout::mean,
    "what the classifier reads: the mean of the tokens, or a class token before them",
    {{"mean", Readout::mean}, {"class", Readout::class_token}},
    {is_encoder}};

std::vector<KeyInfo> text_classification_keys() {
  std::vector<KeyInfo> all = block_keys();
  for (KeyInfo& key : all)
    if (key.name != key::width.name && key.name != key::dropout.name)
      key.limits.used_if.push_back(is_encoder);
  all.insert(all.end(), {text_network, text_pooling});
  for (KeyInfo& key : labeled_text_keys()) all.push_back(std::move(key));
  return all;
}

TextClassifier make_text_classifier(const Config& config, const TextClassificationData& data) {
  const std::int64_t classes = std::ssize(data.class_names());
  config.expect(classes >= 2, key::data_path, "has {}; expected at least two different labels",
                counted(classes, "class", "classes"));
  TextClassifierOptions options{
      .tokens = data.tokenizer().size(),
      .context = data.context(),
      .classes = classes,
      .layers = 0,
      .block = {.width = config[key::width], .dropout = config[key::dropout]}};
  if (config[text_network] == TextNetwork::transformer) {
    options.layers = config[key::layers];
    options.block = block_options(config);
    options.readout = config[text_pooling];
  }
  return initialized(config, [&](Random& init) { return TextClassifier(options, init); });
}

std::string text_classifier_description(const Config& config,
                                        const std::map<std::string, std::string>&) {
  return config[text_network] == TextNetwork::transformer
             ? "a transformer encoder that classifies texts"
             : "a classifier of texts by the mean of their embeddings";
}

std::vector<MetricInfo> text_classification_metrics() {
  std::vector<MetricInfo> all = classification_metrics();
  all.push_back({"macro_f1", "", MetricInfo::Better::higher,
                 "the mean over classes of F1, the harmonic mean of precision and recall"});
  return all;
}

TaskSpec text_classification_spec() {
  return {.name = "text-classification",
          .help = "a transformer encoder or averaged embeddings that classify texts",
          .describe = text_classifier_description,
          .keys = text_classification_keys(),
          .make = make_task_of<TextClassification>,
          .detect = detect_labeled_texts,
          .recognize = recognize_labeled_texts,
          .metrics = text_classification_metrics(),
          .samples = text_classification_samples(),
          .attention = text_classification_attention(),
          .panels = text_classification_panels,
          .onnx = text_classification_graphs};
}

const RegisterTask registered_text_classification(text_classification_spec);

}  // namespace

TextClassification::TextClassification(const TaskSetup& setup)
    : data_(setup), network_(make_text_classifier(setup.config, data_)) {
  data_.set_rows({.padding = network_.padding(), .first = network_.first_token()});
  if (!setup.needs_data) return;
  const std::vector<std::int32_t>& labels = data_.splits().train.labels();
  if (setup.config[key::class_weights] == ClassWeights::balanced)
    class_weights_ = balanced_weights(labels, std::ssize(data_.class_names()));
}

Loss TextClassification::loss(const Batch& batch, const Pass& pass) {
  const Tensor scores = logits(batch.inputs, pass.training ? pass.noise : nullptr);
  Loss loss =
      classification_loss(scores, batch, pass.training ? class_weights_ : std::vector<double>());
  if (!pass.training) add_f1_counts(loss.averages, scores.value(), batch.targets);
  return loss;
}

void TextClassification::add_derived_metrics(Metrics& metrics) const { derive_macro_f1(metrics); }

}  // namespace tapestry
