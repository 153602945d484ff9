#include "train/tasks/language/language_model.hpp"

#include <algorithm>
#include <numbers>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "data/json.hpp"
#include "data/text/conversation_dataset.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/language/initial_embeddings.hpp"
#include "train/tasks/language/token_baselines.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/token_loss.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

struct LanguageModelSettings {
  std::int64_t vocabulary = 0;
  std::string embeddings{};
};

const SettingsOf<LanguageModelSettings> language_model_settings = [] {
  using S = LanguageModelSettings;
  using Row = Bound<S>;
  return std::vector<Row>{Row(key::vocabulary, &S::vocabulary),
                          Row(key::initial_embeddings, &S::embeddings)};
}();

// Returns the name of model.kind.
std::string network_kind_of(const Config& config) {
  return decoder_settings.text("kind", decoder_settings.of(config));
}

std::vector<double> bytes_of_tokens(const Tokenizer& tokenizer) {
  std::vector<double> bytes(tokenizer.size());
  for (std::int32_t token = 0; token < std::ssize(bytes); ++token)
    bytes[token] = static_cast<double>(tokenizer.bytes_of(token).size());
  return bytes;
}

std::map<std::string, std::string> carried_by(const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string> carried;
  for (const auto& [name, value] : metadata)
    if (name.starts_with(carried_prefix) || name == stop_tokens_name) carried[name] = value;
  return carried;
}

// Returns the context, or the one that the metadata record, if that is longer.
std::int64_t longer_context(std::int64_t context,
                            const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(source_context_name());
  if (found == metadata.end()) return context;
  const JsonValue recorded = JsonValue::parse_or_null(found->second);
  return recorded.is_number_unsigned() ? std::max(context, recorded.get<std::int64_t>()) : context;
}

std::set<std::int32_t> ends_of_text(const Corpus& corpus,
                                    const std::map<std::string, std::string>& carried) {
  std::set<std::int32_t> ends;
  for (const auto& end : {corpus.end_of_text, corpus.end_of_answer})
    if (end) ends.insert(*end);
  if (const auto more = carried.find(stop_tokens_name); more != carried.end())
    ends.merge(JsonValue::parse(more->second).get<std::set<std::int32_t>>());
  return ends;
}

// Returns the kind of the corpus. Throws InputError if the model cannot separate packed
// conversations in a row.
CorpusKind checked_kind(const Config& config) {
  const Given<CorpusSettings> given = corpus_settings.of(config);
  const bool packs = given.kind == CorpusKind::conversations && given.packing;
  const bool is_transformer = decoder_settings.of(config).kind == DecoderKind::transformer;
  given.expect(
      !packs || is_transformer, "packing",
      "a recurrent network cannot separate the conversations of a row; set this key to false");
  given.expect(!packs || transformer_settings.of(config).attention == AttentionKind::softmax,
               "packing",
               "random features cannot separate the conversations of a row; set this key to false");
  return given.kind;
}

// Returns the hidden states (B, T, C) that the head reads. If rows have several documents, each is
// read separately. Throws std::invalid_argument for such rows and a recurrent network.
Tensor hidden_of(const DecoderNetwork& network, const Batch& batch, Random* noise) {
  const auto* documents = batch.find<DocumentStarts>();
  if (const auto* recurrent = std::get_if<RecurrentNetwork>(&network)) {
    require(!documents,
            "a recurrent network cannot separate several documents in a row; use a transformer");
    return recurrent->hidden(batch.inputs, noise);
  }
  return std::get<Transformer>(network).hidden(batch.inputs, noise,
                                               documents ? documents->starts : Array());
}

TokenDecoder language_model_decoder(LanguageModel& task) {
  return [&task](std::span<const std::int32_t> tokens) { return task.tokenizer().decode(tokens); };
}

std::string description(const Config& config, const std::map<std::string, std::string>& metadata) {
  const std::string kind = network_kind_of(config);
  return fmt::format("a {}{} language model",
                     metadata.contains("vocabulary")  ? "character-level "
                     : metadata.contains("tokenizer") ? "byte-pair "
                                                      : "",
                     kind == "lstm"  ? "LSTM"
                     : kind == "gru" ? "GRU"
                                     : kind);
}

TaskSpec language_model_spec() {
  using enum MetricInfo::Better;
  return {.name = "language-model",
          .help = "a transformer or recurrent network that predicts the next token",
          .describe = description,
          .keys = joined({decoder_keys(), corpus_settings.keys(), language_model_settings.keys()}),
          .make = make_task_of<LanguageModel>,
          .detect = detect_begin_of_text,
          .recognize = recognize_corpora,
          .metrics = {{.name = "loss",
                       .unit = "nats per token",
                       .better = lower,
                       .meaning = "the negative log likelihood of the next token",
                       .is_per_token = true},
                      {"bits_per_byte", "bits", lower, "the loss for each byte of text"},
                      {"bits_per_char", "bits", lower, "the loss for each character"}},
          .samples = language_model_samples(),
          .predictor = language_model_predictor,
          .chat = language_model_chat(),
          .token_decoder = language_model_decoder,
          .attention = language_model_attention(),
          .panels = language_model_panels,
          .onnx = language_model_graphs,
          .reads_whole_data = true};
}

const RegisterTask registered_language_model(language_model_spec);

}  // namespace

std::string source_context_name() { return key::from.name + ".model.context"; }

LanguageModel::LanguageModel(const TaskSetup& setup)
    : context_(corpus_settings.of(setup.config).context),
      source_context_(longer_context(context_, setup.metadata)),
      kind_(checked_kind(setup.config)),
      corpus_(read_corpus(setup)),
      carried_(carried_by(setup.metadata)),
      ends_(ends_of_text(corpus_, carried_)),
      vocabulary_(vocabulary_of(setup.config, *corpus_.tokenizer)),
      bytes_(bytes_of_tokens(*corpus_.tokenizer)),
      fits_baselines_(has_own_training_data(setup)),
      network_kind_(network_kind_of(setup.config)),
      network_(make_decoder(setup.config, vocabulary_, context_)) {
  if (setup.metadata.empty())
    corpus_.remark = joined_remarks(
        corpus_.remark, set_initial_embeddings(setup.config, *corpus_.tokenizer, model()));
}

// Returns the order of the examples. The windows of a text overlap, and a training reads only a few
// of them.
Order LanguageModel::order() const {
  return kind_ == CorpusKind::text ? Order::with_replacement : Order::shuffled;
}

Loss LanguageModel::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const auto [hidden, targets] = counted_rows(hidden_of(network_, batch, noise), batch);
  const Tensor total = cross_entropy(logits_of(network_, hidden), targets, {.mean = false});
  return {total, averages(total.item(), batch)};
}

MetricSums LanguageModel::averages(double nats, const Batch& batch) const {
  double bytes = 0;
  if (!is_dry_run())
    for (const std::int32_t target : batch.targets.values<std::int32_t>())
      if (target != ignored_target) bytes += bytes_[target];
  return {{"loss", {nats, batch.count}}, {"bits_per_byte", {nats / std::numbers::ln2, bytes}}};
}

std::vector<Baselines> LanguageModel::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  return token_baselines(
      *this, judged,
      {.vocabulary = std::ssize(bytes_),
       .every = kind_ == CorpusKind::text ? context_ : 1,  // windows overlap
       .measure = [&](double nats, const Batch& batch) { return averages(nats, batch); }});
}

std::vector<std::int32_t> LanguageModel::tokens_of(std::string_view text) const {
  std::vector<std::int32_t> tokens = corpus_.begin_of_text;
  const std::vector<std::int32_t> encoded = corpus_.tokenizer->encode(text);
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return tokens;
}

void LanguageModel::add_derived_metrics(Metrics& metrics) const {
  if (corpus_.has_characters) metrics["bits_per_char"] = metrics.at("loss") / std::numbers::ln2;
}

std::map<std::string, std::string> LanguageModel::metadata() const {
  std::map<std::string, std::string> all = corpus_.metadata;
  all.insert(carried_.begin(), carried_.end());
  if (source_context_ > context_) all[source_context_name()] = std::to_string(source_context_);
  return all;
}

}  // namespace tapestry
