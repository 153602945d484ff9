#pragma once

#include "data/toys/recall.hpp"
#include "layers/models/memory_network.hpp"
#include "train/task.hpp"

namespace tapestry {

// The task `recall`, which asks a memory for one of the earlier items.
class RecallTask final : public Task {
 public:
  explicit RecallTask(const TaskSetup& setup);

  MemoryNetwork& model() override { return model_; }
  const Recall& training_data() override { return training_; }
  const Recall& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;

 private:
  Recall training_, validation_;
  MemoryNetwork model_;
};

}  // namespace tapestry
