#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"

namespace tapestry {

// What one step of training or evaluation reads.
struct Batch {
  Array inputs;   // what the model sees, first axis B
  Array targets;  // what it should say, first axis B
  double count;   // loss terms: targets that are not ignored, or images

  // Of pairs, else empty (see pair_batch): what an encoder reads, (B, S) int32, and nonzero where
  // that is padding, as AttentionOptions::key_padding has it.
  Array source{};
  Array source_padding{};

  // Of graphs, all of them side by side, else empty. Inputs are then their nodes' features, (N, F),
  // and graph g has the nodes [first_nodes[g], first_nodes[g + 1]), int32; empty: nodes are
  // examples.
  std::optional<Adjacency> graph{};
  Array first_nodes{};
};

// In `targets` of token batches: no loss at this position.
inline constexpr std::int32_t ignored_target = -1;

// Of built-in tasks: which inputs may be drawn. The two sides have none in common.
enum class Split { train, held_back };

// A finite, indexed collection of examples. Batches of the same examples hold the same bits.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // examples, at least 1
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;
  // Of every example, in any unit, where they differ; else empty. See Order::similar_lengths.
  virtual std::vector<std::int64_t> lengths() const { return {}; }
};

}  // namespace tapestry
