#pragma once

#include <algorithm>
#include <any>
#include <cstdint>
#include <span>
#include <vector>

#include "autograd/array.hpp"
#include "autograd/check.hpp"
#include "autograd/checksum.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {

// What one step of training or evaluation reads.
struct Batch {
  Array inputs;   // what the model sees, first axis B
  Array targets;  // what it should say, first axis B
  double count;   // loss terms: targets that are not ignored, or images

  // What one kind of model reads besides, asked for by its type: the SourceTokens of an encoder,
  // the GraphPart of a graph network.
  std::any auxiliary{};
  template <class T>
  const T& part() const {
    const T* found = std::any_cast<T>(&auxiliary);
    require(found != nullptr, "Batch: it has no such part");
    return *found;
  }
};

// In `targets` of token batches: no loss at this position.
inline constexpr std::int32_t ignored_target = -1;

// Returns a batch of a rehearsal, in which every target counts.
inline Batch with_all_counted(Batch batch) {
  batch.count = static_cast<double>(batch.targets.size());
  return batch;
}

// Which inputs a built-in task draws from: the two splits have none in common.
enum class Split { train, validation };

// A finite, indexed collection of examples. Batches of the same examples hold the same bits. While
// the thread rehearses (autograd/dry_run.hpp), a batch has its shapes alone: no value is written.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // examples, at least 1
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;
  // The length of every example, in any unit, for Order::similar_lengths; empty where all are
  // alike.
  virtual std::vector<std::int64_t> lengths() const { return {}; }
  // Adds what the examples are made of, so that a resumed run knows its data again; nothing where
  // options and a seed say it all.
  virtual void add_to(Checksum&) const {}
};

// Returns the examples that are drawn for a batch: all of them, but while the thread rehearses at
// most 1024, by which the shapes of the whole are estimated.
inline std::span<const std::int64_t> examples_to_make(std::span<const std::int64_t> examples) {
  constexpr std::size_t most = 1024;
  return is_dry_run() ? examples.first(std::min(most, examples.size())) : examples;
}

}  // namespace tapestry
