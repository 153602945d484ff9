#pragma once

#include <functional>

#include "autograd/random.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// f(x, noise), keeping x alone for the backward pass, which runs f once more to get back what its
// ops would have kept (activation checkpointing; Chen et al. 2016, arXiv 1604.06174). `noise`,
// which may be null, is all that f may draw from: it draws the same numbers both times.
Tensor recompute(const Tensor& x, Random* noise,
                 const std::function<Tensor(const Tensor& x, Random* noise)>& f);

}  // namespace tapestry
