#pragma once

#include "layers/recurrent.hpp"

namespace tapestry {

// A layer of long short-term memory (Hochreiter & Schmidhuber 1997; see ops/gated_recurrence.hpp).
// The state has h and c, (B, 2H). Rows of the maps are in PyTorch's order of gates i, f, g, o. The
// one bias is the sum of PyTorch's two. Weights start as those of Recurrent.
class Lstm final : public RecurrentLayer {
 public:
  Linear input;   // (4H, C), with bias unless the constructor's `bias` is false
  Linear hidden;  // (4H, H), without bias

  Lstm(std::int64_t width, std::int64_t state_width, Random& init, bool bias = true);
  // The state in `last` is a constant: no gradient passes through it.
  Tensor forward(const Tensor& x, const Tensor& initial = {},
                 Tensor* last = nullptr) const override;
  Tensor zero_state(std::int64_t batch) const override;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
