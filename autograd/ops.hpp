#pragma once

// Includes all ops.
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/attention.hpp"
#include "autograd/ops/convolution.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/graphs.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/norms.hpp"
#include "autograd/ops/recompute.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/rotary.hpp"
#include "autograd/ops/scan.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"
