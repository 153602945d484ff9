#pragma once

#include "autograd/ops/unfold.hpp"
#include "layers/linear.hpp"

namespace tapestry {

// A convolution along time: x (B, T, C) -> (B, T', O), y_t = b + Σ_k W_k x_(s t + k - before), one
// linear map of every window (see unfold for T'). kernel.weight is (O, K · C): W_0 to W_(K-1) side
// by side. With K odd, stride 1 and (K - 1) / 2 zeros on both sides, T' = T.
class Convolution1d final : public Module {
 public:
  Linear kernel;
  UnfoldOptions windows;

  Convolution1d(std::int64_t in, std::int64_t out, Random& init, const UnfoldOptions& options = {})
      : kernel(options.width * in, out, init), windows(options) {}
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
