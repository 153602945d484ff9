#pragma once

// Installed as <tapestry/elementwise.hpp>: element-wise ops from lambdas. It contains vector
// instructions: compile its sources with tapestry::march.
#include "autograd/ops/elementwise.hpp"
