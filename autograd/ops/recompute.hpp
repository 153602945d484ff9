#pragma once

#include <functional>

#include "autograd/random.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// Returns f(x, noise), and keeps only x for the backward pass, which runs f again to compute what
// its ops need (activation checkpointing; Chen et al. 2016, arXiv 1604.06174). f may draw random
// numbers only from `noise`, which may be null: both runs draw the same numbers. f may use other
// variables, and results of the tape that records the op. For a constant x, f runs once and is
// recorded as usual.
Tensor recompute(const Tensor& x, Random* noise,
                 const std::function<Tensor(const Tensor& x, Random* noise)>& f);

}  // namespace tapestry
