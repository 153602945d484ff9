#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.hpp"
#include "train/tools/doctor/training_under_test.hpp"

namespace tapestry {

inline constexpr double usual_rate = 1e-3;  // where the configured one is not what is asked about

// Steps of the configured optimiser, with its clipping, at any learning rate.
class Steps {
 public:
  explicit Steps(TrainingUnderTest& under_test);

  // One on such examples, with dropout or without. Their loss before it.
  double with_dropout(const Examples& examples, double learning_rate);
  double without_dropout(const Examples& examples, double learning_rate);

 private:
  double step(const std::function<Loss()>& loss, double count, double learning_rate);

  TrainingUnderTest& under_test_;
  std::vector<Parameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t done_ = 0;
};

}  // namespace tapestry
