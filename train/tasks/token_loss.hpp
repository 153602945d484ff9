#pragma once

#include "autograd/ops/losses.hpp"
#include "autograd/tensor.hpp"
#include "train/task.hpp"
#include "train/task_spec.hpp"

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

// Returns the loss of a decoder's hidden states (B, T, C): the cross-entropy of the tokens that are
// targets, with smoothing in training, and its metric "loss".
template <class Decoder>
Loss token_loss(const Decoder& decoder, const Tensor& hidden, const Batch& batch,
                double smoothing) {
  const auto [rows, targets] = counted_rows(hidden, batch);
  const Tensor total =
      cross_entropy(decoder.logits(rows), targets,
                    {.ignore_index = ignored_target, .label_smoothing = smoothing, .mean = false});
  return {total, {{"loss", {total.item(), batch.count}}}};
}

// Returns the metrics "loss", of the tokens of `whose` ("the target's"), and "perplexity", its
// exponential, before others.
std::vector<MetricInfo> token_metrics(const std::string& whose, std::vector<MetricInfo> others);
void add_perplexity(Metrics& metrics);

}  // namespace tapestry
