#pragma once

#include "data/toys/toy_sequences.hpp"
#include "train/task.hpp"
#include "train/tasks/language/decoder_network.hpp"

namespace tapestry {

// The task `toy-sequence`, in which a decoder-only transformer or a recurrent network sorts,
// reverses, copies, adds or recalls.
class ToySequence final : public Task {
 public:
  explicit ToySequence(const TaskSetup& setup);

  Module& model() override { return module_of(network_); }
  const DecoderNetwork& network() const { return network_; }
  const ToySequences& training_data() override { return training_; }
  const ToySequences& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;

 private:
  ToySequences training_, validation_;
  DecoderNetwork network_;
};

}  // namespace tapestry
