#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "autograd/checksum.hpp"
#include "autograd/dry_run.hpp"
#include "data/batch.hpp"

namespace tapestry {

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
