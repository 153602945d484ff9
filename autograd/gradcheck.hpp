#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

struct GradcheckOptions {
  // Largest accepted |analytic - numeric| / max(0.01, 1e-5 f, s). Of a projection, f is the largest
  // magnitude of the loss, and s the length of the analytic gradient; of an element of the
  // Jacobian, f and s are the magnitudes of that element of the loss and of the Jacobian.
  double tolerance = 1e-6;
  double step = 1e-4;  // first step of the differences; a tenth and a hundredth of it follow
  int directions = 4;  // number of random projections
  std::int64_t jacobian_limit = 256;  // full Jacobian if inputs × outputs is at most this
  std::uint64_t seed = 0;
};

struct GradcheckResult {
  std::string name;       // name of the parameter
  double error = 0;       // largest relative error
  bool passed = true;     // error <= tolerance, without NaN
  std::int64_t held = 0;  // number of elements that a step took across a kink: see Branches
};

// Compares the tape's gradient of `loss`, of any shape, with fourth-order central differences in
// float64: by projection (uᵀ J v for random u, v), and element by element if the Jacobian J is
// small. Returns one result for each parameter. `loss` must depend on the parameters only, with the
// same random numbers in each call. Parameters are changed in place and restored, and fixed ones
// are skipped. Throws std::invalid_argument for parameters that are not float64.
std::vector<GradcheckResult> gradcheck_parameters(const std::function<Tensor()>& loss,
                                                  const std::vector<Parameter*>& parameters,
                                                  const GradcheckOptions& options = {});

// Compares the gradient of a scalar loss in one random direction of all parameters at once, in a
// few passes. If there is an error, the result has the name of the last parameter whose gradient is
// wrong, else an empty name. Throws std::invalid_argument for parameters that are not float64, and
// unless the loss has one element.
GradcheckResult gradcheck_together(const std::function<Tensor()>& loss,
                                   const std::vector<Parameter*>& parameters,
                                   const GradcheckOptions& options = {});

}  // namespace tapestry
