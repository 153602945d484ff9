#pragma once

#include "data/toys/in_context.hpp"
#include "layers/models/memory_network.hpp"
#include "train/task.hpp"

namespace tapestry {

// The task `in-context-regression`, which asks a memory of pairs (x, y) for y of another x.
class InContextTask final : public Task {
 public:
  explicit InContextTask(const TaskSetup& setup);

  MemoryRegressor& model() override { return model_; }
  const InContextRegression& training_data() override { return training_; }
  const InContextRegression& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override;

 private:
  InContextRegression training_, validation_;
  MemoryRegressor model_;
};

}  // namespace tapestry
