#pragma once

#include "data/toys/toy_sequences.hpp"
#include "layers/models/transformer.hpp"
#include "train/task.hpp"

namespace tapestry {

// The task `toy-sequence`, in which a decoder-only transformer sorts, reverses, copies or adds
// numbers.
class ToySequence final : public Task {
 public:
  explicit ToySequence(const TaskSetup& setup);

  Transformer& model() override { return model_; }
  const ToySequences& training_data() override { return training_; }
  const ToySequences& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;

 private:
  ToySequences training_, validation_;
  Transformer model_;
};

}  // namespace tapestry
