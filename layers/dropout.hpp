#pragma once

#include "layers/module.hpp"

namespace tapestry {

// x (...) -> (...): drops elements at `rate` while there is noise to draw from; with null noise
// (evaluation) or a rate of 0 it returns x.
class Dropout final : public Module {
 public:
  double rate;

  explicit Dropout(double dropped) : rate(dropped) {}
  Tensor forward(const Tensor& x, Random* noise) const;
  void fields(FieldVisitor&) override {}
};

}  // namespace tapestry
