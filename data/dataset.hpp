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

  // Only batches of pairs have these (see pair_batch), both (B, S) int32: what an encoder reads,
  // and 1 where that is padding, else 0.
  Array source{};
  Array source_padding{};

  // Only batches of graphs have these. The graphs stand side by side as one: inputs are its nodes'
  // features, (N, F), and graph g has the nodes [first_nodes[g], first_nodes[g + 1]), int32. Where
  // the examples are single nodes, first_nodes is empty.
  std::optional<Adjacency> graph{};
  Array first_nodes{};
};

// In `targets` of token batches: no loss at this position.
inline constexpr std::int32_t ignored_target = -1;

// Which inputs a built-in task draws from: the two splits have none in common.
enum class Split { train, held_back };

// A finite, indexed collection of examples. Batches of the same examples hold the same bits.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // examples, at least 1
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;
  // The length of every example, in any unit, for Order::similar_lengths; empty where all are
  // alike.
  virtual std::vector<std::int64_t> lengths() const { return {}; }
};

}  // namespace tapestry
