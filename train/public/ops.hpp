#pragma once

// Installed as <tapestry/ops.hpp>: arrays, the tape, all ops, and what an own op needs. An own
// element-wise op also includes <tapestry/elementwise.hpp>.
#include "autograd/branches.hpp"
#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"
