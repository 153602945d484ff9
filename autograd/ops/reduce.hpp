#pragma once

#include <vector>

#include "autograd/tensor.hpp"

// Reductions over `axes`: negative ones count from the last, and an empty list means all. Reduced
// axes are removed, or kept with extent 1: x (..., n, ...) -> (..., ...) or (..., 1, ...). Throws
// std::invalid_argument for an axis that does not exist or is given twice.
namespace tapestry {

enum class Keep { no, yes };

Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);
// Returns NaN for an empty axis.
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);
// Returns -inf for an empty axis, and divides the gradient among equal maxima; undefined with NaN.
Tensor max(const Tensor& x, const std::vector<int>& axes = {}, Keep keep = Keep::no);

}  // namespace tapestry
