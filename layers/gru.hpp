#pragma once

#include "layers/recurrent.hpp"

namespace tapestry {

// A layer of gated recurrent units (Cho et al. 2014, arXiv 1406.1078; see ops/gated_recurrence.hpp)
// with the reset gate after the product. The state is h. Rows of the maps are in PyTorch's order of
// gates r, z, n. The bias of `input` is the sum of PyTorch's two but for n, whose second is
// `candidate_bias`. Weights start as those of Recurrent.
class Gru final : public RecurrentLayer {
 public:
  Linear input;              // (3H, C), with bias unless the constructor's `bias` is false
  Linear hidden;             // (3H, H), without bias
  Parameter candidate_bias;  // (H), starts uniform in ±1/√H; empty without bias

  Gru(std::int64_t width, std::int64_t state_width, Random& init, bool bias = true);
  Tensor forward(const Tensor& x, const Tensor& initial = {},
                 Tensor* last = nullptr) const override;
  Tensor zero_state(std::int64_t batch) const override;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
