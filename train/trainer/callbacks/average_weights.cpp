#include "optim/averaged_weights.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

class WeightAveraging final : public Callback {
 public:
  WeightAveraging(const Optimizer& optimizer, double decay)
      : optimizer_(optimizer), average_(optimizer.parameters(), decay) {}

  void save(OptimizerState& state) const override {
    state.insert(state.end(), average_.arrays().begin(), average_.arrays().end());
  }
  // Restores the trained weights from the checkpoint's arrays, because its parameters are the
  // averages.
  void restore(const Checkpoint& checkpoint) override {
    restore_weights(checkpoint, average_);
    average_.exchange();
  }
  void on_step_end(const ComputedStep&, bool moved) override {
    if (!moved) return;
    if (optimizer_.averages())
      average_.add(optimizer_.average_share());
    else
      average_.follow(optimizer_.steps());
  }
  void exchange_weights() override { average_.exchange(); }

 private:
  const Optimizer& optimizer_;
  AveragedWeights average_;
};

}  // namespace

std::unique_ptr<Callback> average_weights(const Optimizer& optimizer, double decay) {
  return std::make_unique<WeightAveraging>(optimizer, decay);
}

}  // namespace tapestry
