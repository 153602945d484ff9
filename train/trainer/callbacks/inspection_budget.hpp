#pragma once

#include "autograd/clock.hpp"
#include "train/task.hpp"

namespace tapestry {

// Limits inspections of a model while it trains to a hundredth of the training's time: how many
// there are depends on the machine, and the training does not depend on them. The first is free.
class InspectionBudget {
 public:
  bool allows_one() const;
  // Calls `inspect`, whose time counts.
  template <class Inspect>
  void spend_on(const Inspect& inspect) {
    const double begin = now_s();
    inspect();
    spent_s_ += now_s() - begin;
  }

 private:
  double started_s_ = now_s(), spent_s_ = 0;
};

// Returns a sample that the model makes now, with at most `most_bytes` bytes of text.
Sample sample_now(const Config& config, Task& task, std::size_t most_bytes);

}  // namespace tapestry
