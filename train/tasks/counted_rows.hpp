#pragma once

#include "autograd/tensor.hpp"
#include "data/dataset.hpp"

namespace tapestry {

// The hidden states (N, C) of positions whose targets are not ignored_target, and these (N).
struct CountedRows {
  Tensor hidden;
  Array targets;
};

// Returns them for hidden states (B, T, C) and the targets of the batch, (B, T) int32: the head of
// a model is needed there only. If no target is ignored, or all are, returns both as they are. A
// dry run, which reads no targets, takes batch.count of them.
CountedRows counted_rows(const Tensor& hidden, const Batch& batch);

}  // namespace tapestry
