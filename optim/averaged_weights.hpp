#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

// The exponential moving average of a model's weights, which often generalizes better than the
// weights (Polyak & Juditsky 1992; Tarvainen & Valpola 2017, arXiv 1703.01780). After step t
//   average += (1 - min(decay, (1 + t) / (10 + t))) (weight - average),
// so that the initial weights are soon forgotten. The average has the same bits for any number of
// threads.
class AveragedWeights {
 public:
  // Copies the current weights. Fixed parameters are ignored.
  AveragedWeights(std::vector<Parameter*> parameters, double decay);

  void follow(std::int64_t step);  // updates the average after step 1, 2, …
  // Updates the average with another share: average += share (weight - average).
  void add(double share);

  // Swaps the weights of the model with the averages. Throws std::invalid_argument between a
  // forward pass with the weights and backward().
  void exchange();

  // Returns the arrays by name, "weights.<parameter>". While the model has the averages, these are
  // the trained weights, which a checkpoint saves and restores.
  const OptimizerState& arrays() const { return arrays_; }

 private:
  std::vector<Parameter*> parameters_;
  double decay_;
  OptimizerState arrays_;
};

}  // namespace tapestry
