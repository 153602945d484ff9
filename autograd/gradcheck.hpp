#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/parameter.hpp"

namespace tapestry {

struct GradcheckOptions {
  double tolerance = 1e-6;  // on |analytic - numeric| / max(0.01, ‖analytic gradient‖)
  double step = 1e-4;       // of the differences; a tenth and a hundredth of it are tried next
  int directions = 4;       // random projections
  std::int64_t jacobian_limit = 256;  // full Jacobian when inputs × outputs is at most this
  std::uint64_t seed = 0;
};

struct GradcheckResult {
  std::string name;       // the input or parameter
  double error = 0;       // the worst relative error found
  bool passed = true;     // error <= tolerance, and nothing was NaN
  std::int64_t held = 0;  // elements of relu or max that a step took over a kink: see Branches
};

// Compares the tape's gradient of f with central differences of f itself, in float64: by
// projection (uᵀ J v for random u, v), and element by element where the Jacobian J is small. One
// result an input. f must be a function of its inputs alone (the same random numbers each call).
// Piecewise ops are held to the pieces of the inputs, of which the tape gives the gradient.
std::vector<GradcheckResult> gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                       const std::vector<Array>& inputs,
                                       const GradcheckOptions& options = {});

// The same for a scalar loss of float64 parameters, which are moved in place and put back. Fixed
// ones are passed over.
std::vector<GradcheckResult> gradcheck_parameters(const std::function<Tensor()>& loss,
                                                  const std::vector<Parameter*>& parameters,
                                                  const GradcheckOptions& options = {});

// The same in one random direction of all parameters at once, which takes a few passes however many
// there are. Where it finds an error, its name is that of the last parameter whose gradient is
// wrong: those behind it are right.
GradcheckResult gradcheck_together(const std::function<Tensor()>& loss,
                                   const std::vector<Parameter*>& parameters,
                                   const GradcheckOptions& options = {});

}  // namespace tapestry
