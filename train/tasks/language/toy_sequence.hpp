#pragma once

#include <memory>

#include "data/toys/prompt_dataset.hpp"
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
  const PromptDataset& training_data() override { return *training_; }
  const PromptDataset& validation_data() override { return *validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;

 private:
  std::unique_ptr<const PromptDataset> training_, validation_;
  DecoderNetwork network_;
};

}  // namespace tapestry
