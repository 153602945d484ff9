#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

// An exponential moving average of a model's weights, which often does better than the weights
// themselves (Polyak & Juditsky 1992; Tarvainen & Valpola 2017, arXiv 1703.01780). After step t
//   average += (1 - min(decay, (1 + t) / (10 + t))) (weight - average),
// so that it soon forgets the weights that were drawn. The same bits on any number of threads.
class AveragedWeights {
 public:
  // Begins with the weights. Fixed parameters are left out.
  AveragedWeights(std::vector<Parameter*> parameters, double decay);

  void follow(std::int64_t step);  // the optimiser's step, from 1, was done

  // The model takes the averages, and the weights stand here: until the next exchange.
  void exchange();

  // "weights.<parameter>", for a checkpoint that is made while the model has the averages, and into
  // which a resumed training's weights are read.
  const OptimizerState& arrays() const { return arrays_; }

 private:
  std::vector<Parameter*> parameters_;
  double decay_;
  OptimizerState arrays_;
};

}  // namespace tapestry
