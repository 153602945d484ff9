#pragma once

#include <functional>

#include "data/text/bleu.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "train/generate/beam_search.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

enum class PairKind { dates, text };

// The pairs of a config, and what the model has in addition to transformer_keys().
struct TranslationSettings {
  PairKind kind = PairKind::dates;
  std::string path{}, source{};
  std::uint64_t seed = 0;
  std::int64_t examples = 100'000, held_back = 1000;  // numbers of dates
  std::string source_language = "de", target_language = "en";
  std::string train = "train", validation = "val", test{};  // beginnings of file names
  std::string tokenizer{};                                  // empty: it is trained
  std::int64_t vocabulary = 8000;
  bool lower_case = false;
  std::int64_t context = 64;
  std::int64_t decoder_layers = 0;  // 0: those of the encoder
  double label_smoothing = 0;
  std::int64_t beams = 1;
};

// Pairs of sentences or dates as tokens, and the functions that encode and decode texts.
struct ParallelCorpus {
  std::int64_t vocabulary = 0, context = 0;
  std::function<std::vector<std::int32_t>(std::string_view)> encode{};
  std::function<std::string(std::span<const std::int32_t>)> decode{};
  std::vector<std::string> decode_each(std::span<const std::int32_t> tokens) const;
  bool lower_case = false;                            // whether decoded texts are in lower case
  std::unique_ptr<Dataset> training{}, validation{};  // null if data are not needed
  std::unique_ptr<Dataset> test{};                    // also null if there is no test split
  std::map<std::string, std::string> metadata{};
};

// The task `translation`, an encoder-decoder transformer of dates or sentences.
class Translation final : public Task {
 public:
  explicit Translation(const TaskSetup& setup);

  EncoderDecoder& model() override { return model_; }
  const Dataset& training_data() override { return *corpus_.training; }
  const Dataset& validation_data() override { return *corpus_.validation; }
  const Dataset* test_data() override { return corpus_.test.get(); }
  Order order() const override;
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> metadata() const override { return corpus_.metadata; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::vector<Baselines> baselines(JudgedSplits judged) override;
  void add_derived_metrics(Metrics& metrics) const override;
  void add_corpus_metrics(const GeneratedTexts& generated, Metrics& metrics) const override;
  Signatures signatures() const override;

  const ParallelCorpus& corpus() const { return corpus_; }
  TranslateOptions decoding() const;
  GeneratedTexts generated(const Batch& batch) const;  // returns predictions and references

 private:
  BleuOptions bleu() const;

  TranslationSettings settings_;
  ParallelCorpus corpus_;
  EncoderDecoder model_;
  bool fits_baselines_;  // it has training data, which are no synthetic ones
};

Inspector<Sample> translation_samples();
Predictor translation_predictor(Translation& task);
Inspector<AttentionMaps> translation_attention();
ReportPanels translation_panels(Translation& task);
onnx::Models translation_graphs(Translation& task);

}  // namespace tapestry
