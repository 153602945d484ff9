#pragma once

#include "optim/adam.hpp"

namespace tapestry {

struct MuonOptions : AdamOptions {
  double muon_momentum = 0.95;  // μ
  std::int64_t newton_schulz_steps = 5;
  bool match_rms_adamw = true;  // the factor of the learning rate; see Muon
};

// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), for hidden matrices:
// weights (outputs, inputs) with more than one row and column that are not heads. AdamW updates the
// others: embeddings, heads, norms, biases, and the kernels of convolutions.
//   m = μ m + (1 - μ) g,  o = orthogonalized((1 - μ) g + μ m),  θ = θ - η λ θ - η s o
// s is 0.2 √max(outputs, inputs), with which a step is about as large as one of AdamW, so that one
// learning rate fits both (Liu et al. 2025, arXiv 2502.16982, eq. 4); or, without match_rms_adamw,
// √max(1, outputs / inputs) as in Jordan's code, whose learning rates are larger (0.02).
class Muon final : public AdamW {
 public:
  using Options = MuonOptions;
  Muon(std::vector<Parameter*> parameters, const Options& options);
  std::vector<std::string> slot_names(const Parameter& parameter) const override;
  bool updates_whole(const Parameter& parameter) const override;

 protected:
  void update_whole(const Update& update) const override;

 private:
  Options options_;
};

// Returns a matrix with about the singular vectors of `matrix`, and singular values from about 0.7
// to 1.2, by steps of a quintic Newton–Schulz iteration: (M, N) -> (M, N). A matrix of zeros stays
// so.
Array orthogonalized(const Array& matrix, std::int64_t steps);

}  // namespace tapestry
