#pragma once

#include <vector>

#include "autograd/tensor.hpp"

// Reductions over `axes` (negative ones count from the last; none given means all). The reduced
// axes are dropped, or kept with extent 1: x (..., n, ...) -> y (...) or (..., 1, ...).
namespace tapestry {

enum class Keep { no, yes };

Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);
// Equal maxima share the gradient. -inf over an empty axis. Where there is a NaN, anything.
Tensor max(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);

}  // namespace tapestry
