#pragma once

#include <optional>

#include "data/text/skip_grams.hpp"
#include "layers/models/skip_gram.hpp"
#include "train/config/settings.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

// The text and the model of the task `word-vectors`.
struct WordVectorSettings : WordVocabularyOptions, SkipGramOptions {
  std::string path{}, source{};
  double validation_fraction = 0.02;
  bool across_lines = false;
  std::int64_t width = 100;
};

// The task `word-vectors`.
class WordVectorTask final : public Task {
 public:
  explicit WordVectorTask(const TaskSetup& setup);

  SkipGram& model() override { return *model_; }
  const Dataset& training_data() override { return *training_; }
  const Dataset& validation_data() override { return *validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  const char* unit() const override { return "words"; }
  std::map<std::string, std::string> metadata() const override;
  std::string remark() const override;

  const std::vector<std::string>& words() const { return vocabulary_.words; }
  Array vectors() const { return model_->vectors.value(); }  // (V, C)

 private:
  void read_text(const Given<WordVectorSettings>& given, std::int64_t parts);

  WordVocabulary vocabulary_;
  std::optional<WordWindows> training_, validation_;
  std::optional<SkipGramSampler> sampler_;
  std::optional<SkipGram> model_;
};

Inspector<Sample> word_vector_samples();
ReportPanels word_vector_panels(WordVectorTask& task);

}  // namespace tapestry
