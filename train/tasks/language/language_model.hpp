#pragma once

#include <variant>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {

// Predicts the next character of a text, or of names.
class LanguageModel final : public Task {
 public:
  using Network = std::variant<Transformer, RecurrentNetwork>;

  explicit LanguageModel(const TaskSetup& setup);

  Module& model() override;
  const Dataset& training_data() override { return *corpus_.training; }
  const Dataset& validation_data() override { return *corpus_.validation; }
  Order order() const override { return names_ ? Order::shuffled : Order::with_replacement; }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override { return batch.count; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  void derive(Metrics& metrics) const override;
  std::map<std::string, std::string> metadata() const override;

  const Network& network() const { return network_; }
  const CharVocabulary& vocabulary() const { return corpus_.vocabulary; }
  std::int64_t context() const { return context_; }
  bool writes_names() const { return names_; }

 private:
  std::int64_t context_;
  bool names_;
  Corpus corpus_;
  Network network_;
};

}  // namespace tapestry
