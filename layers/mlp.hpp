#pragma once

#include "layers/feed_forward.hpp"

namespace tapestry {

// x (..., widths.front()) -> (..., widths.back()): Linear layers with an activation after each,
// except, unless `activate_last`, the last.
class Mlp final : public Module {
 public:
  std::vector<Linear> layers;  // "0", "1", …
  Activation activation;
  bool activate_last;

  struct Options {
    Activation activation = Activation::relu;
    bool activate_last = false;
  };
  Mlp(const std::vector<std::int64_t>& widths, Random& init, const Options& options);
  Mlp(const std::vector<std::int64_t>& widths, Random& init) : Mlp(widths, init, Options()) {}
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
