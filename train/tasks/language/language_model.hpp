#pragma once

#include <map>
#include <set>
#include <string>

#include "train/task_spec.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/language/decoder_network.hpp"

namespace tapestry {

// Prefix of metadata that are preserved unchanged: files of a published model.
inline constexpr std::string_view carried_prefix = "carried.";
// The metadata field of the tokens that end a text, a JSON list of numbers.
inline constexpr const char* stop_tokens_name = "stop_tokens";
// Returns the name of the metadata field of the context of the model that a training began with:
// "train.from.model.context". The field exists if that is longer than the model's own.
std::string source_context_name();

// The task `language-model`, which predicts the next token of a text, or the next character of a
// name.
class LanguageModel final : public Task {
 public:
  explicit LanguageModel(const TaskSetup& setup);

  Module& model() override { return module_of(network_); }
  const Dataset& training_data() override { return *corpus_.training; }
  const Dataset& validation_data() override { return *corpus_.validation; }
  Order order() const override;
  std::string remark() const override { return corpus_.remark; }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override { return batch.count; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  void add_derived_metrics(Metrics& metrics) const override;
  std::map<std::string, std::string> metadata() const override;

  const DecoderNetwork& network() const { return network_; }
  const std::string& network_kind() const { return network_kind_; }  // model.kind: "lstm"
  const Tokenizer& tokenizer() const { return *corpus_.tokenizer; }
  // Returns the tokens that begin each text that the model was trained on.
  std::span<const std::int32_t> begin_of_text() const { return corpus_.begin_of_text; }
  // Returns the tokens of a text after begin_of_text().
  std::vector<std::int32_t> tokens_of(std::string_view text) const;
  std::optional<std::int32_t> end_of_text() const { return corpus_.end_of_text; }
  // Returns the token that ends the assistant's turn, if the model was trained on conversations.
  std::optional<std::int32_t> end_of_answer() const { return corpus_.end_of_answer; }
  bool ends_text(std::int32_t token) const { return ends_.contains(token); }
  // Returns the number of rows of the embedding.
  std::int64_t vocabulary() const { return vocabulary_; }
  std::int64_t context() const { return context_; }
  // Returns context(), or that of the model that the training began with, if that is longer.
  std::int64_t source_context() const { return source_context_; }
  bool writes_names() const { return kind_ == CorpusKind::names; }

 private:
  // Returns the metrics of a batch from the sum of its losses in nats.
  MetricSums averages(double nats, const Batch& batch) const;

  std::int64_t context_, source_context_;
  CorpusKind kind_;
  Corpus corpus_;
  std::map<std::string, std::string> carried_;
  std::set<std::int32_t> ends_;
  std::int64_t vocabulary_;
  std::vector<double> bytes_;  // number of bytes of each token
  bool fits_baselines_;        // it has training data, which are no synthetic ones
  std::string network_kind_;
  DecoderNetwork network_;
};

Inspector<Sample> language_model_samples();
Predictor language_model_predictor(LanguageModel& task);
Inspector<ChatSession> language_model_chat();
Inspector<AttentionMaps> language_model_attention();
ReportPanels language_model_panels(LanguageModel& task);
onnx::Models language_model_graphs(LanguageModel& task);

}  // namespace tapestry
