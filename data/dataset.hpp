#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"
#include "autograd/check.hpp"
#include "autograd/checksum.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {

// A text that a generated text is compared with.
struct Reference {
  std::string line{};
  bool source_cut = false;  // the source was truncated
};

// The auxiliary inputs of an encoder–decoder model, whose encoder reads the sources.
struct SourceTokens {
  Array tokens{};                       // (B, S) int32
  Array padding{};                      // (B, S) int32: 1 where a token is padding, else 0
  std::vector<Reference> references{};  // one per row
};

// The auxiliary inputs of a captioner, whose inputs are images (B, F), and whose targets (B, T) are
// the tokens of their captions.
struct CaptionTokens {
  Array tokens{};                         // (B, T) int32: those that the decoder reads
  std::vector<std::string> references{};  // one per row
  // (B, R, height · width) float32: the share of each pixel that each of R garments covers, in the
  // order in which the caption names them; or empty.
  Array masks{};
};

// The auxiliary inputs of a graph network, whose inputs are the features (N, F) of the nodes. The
// graphs are joined to one; graph g has the nodes [first_nodes[g], first_nodes[g + 1]), int32. If
// the examples are single nodes, first_nodes is empty.
struct GraphPart {
  Adjacency adjacency{};
  Array first_nodes{};
  // If most features are zero, the batch's inputs are the values (E, 1) of the others, which belong
  // to these entries of (N, F).
  std::optional<Adjacency> features{};
};

// The auxiliary inputs of a language model whose rows have several documents: the position at which
// each token's document starts in its row, (B, T) int32, as attention requires it.
struct DocumentStarts {
  Array starts{};
};

// The auxiliary inputs of a forecaster with a cycle: the place in the cycle of the first step of
// each window, (B) int32.
struct CyclePlaces {
  Array first{};
};

// The auxiliary inputs of a batch, if it has any.
using Auxiliary = std::variant<std::monostate, SourceTokens, CaptionTokens, GraphPart,
                               DocumentStarts, CyclePlaces>;

// The data of one step of training or evaluation.
struct Batch {
  Array inputs;   // first axis B
  Array targets;  // first axis B
  double count;   // number of loss terms: targets that are not ignored, or images
  Auxiliary auxiliary{};

  bool has_auxiliary() const { return !std::holds_alternative<std::monostate>(auxiliary); }

  // Returns the auxiliary inputs of this type, or null if the batch has others or none.
  template <class T>
  const T* find() const {
    return std::get_if<T>(&auxiliary);
  }
  // Returns the auxiliary inputs of this type. Throws std::invalid_argument if the batch has others
  // or none.
  template <class T>
  const T& part() const {
    const T* found = find<T>();
    require(found != nullptr,
            "Batch: no auxiliary inputs of the requested type; check with find()");
    return *found;
  }
};

// The target of a position of a token batch that has no loss.
inline constexpr std::int32_t ignored_target = -1;

// Returns the batch of a dry run, in which every target is counted.
inline Batch with_all_counted(Batch batch) {
  batch.count = static_cast<double>(batch.targets.size());
  return batch;
}

// Returns a batch of next-token prediction with inputs and targets (B, T) int32. `row(b)` returns
// the tokens of row b, from first_target + 1 to T + 1 of them. The inputs are all of these but the
// last, padded with 0; the targets are all but the first, padded with ignored_target. Targets
// before `first_target` are ignored as well.
template <class Row>
Batch next_token_batch(const Shape& shape, Row row, std::int64_t first_target = 0) {
  Batch batch{.inputs = Array::zeros(shape, DType::int32),
              .targets = Array::full(shape, ignored_target, DType::int32),
              .count = 0};
  if (is_dry_run()) return with_all_counted(std::move(batch));
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    const std::vector<std::int32_t>& tokens = row(b);
    std::copy(tokens.begin(), tokens.end() - 1, input);
    std::copy(tokens.begin() + 1 + first_target, tokens.end(), target + first_target);
    batch.count += static_cast<double>(std::ssize(tokens) - 1 - first_target);
    input += shape[1];
    target += shape[1];
  }
  return batch;
}

// Returns the numbers begin, begin + 1, …, end - 1.
inline std::vector<std::int64_t> indices(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

// The splits of a synthetic task, which have no input in common.
enum class Split { train, validation };

class SeriesDataset;

// A finite, indexed collection of examples. Batches of the same examples have the same bits. In a
// dry run (autograd/dry_run.hpp) a batch has its shapes only, and no value is written.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // returns the number of examples, at least 1
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;
  // Returns the length of every example, in any unit, for Order::similar_lengths; empty if all are
  // equal.
  virtual std::vector<std::int64_t> lengths() const { return {}; }
  // Adds the data to a checksum, which a resumed run compares; adds nothing if options and a seed
  // determine the data.
  virtual void add_to(Checksum&) const {}
  // Adds exactly the examples of this split, in order, and returns true. Returns false, and adds
  // nothing, if add_to() does so.
  virtual bool add_examples_to(Checksum&) const { return false; }
  // Returns whether each example stands alone, as an image or a sentence does, so that one with the
  // same inputs is the same example: no windows of texts or series, and no nodes of one graph.
  virtual bool has_single_examples() const { return false; }
  // Returns itself if the examples are windows of time series, else null.
  virtual const SeriesDataset* series() const { return nullptr; }

 protected:
  // Throws std::invalid_argument, with the name of the class, unless the example exists.
  void require_example(const char* name, std::int64_t example) const {
    require(example >= 0 && example < size(), "{}: example {}; expected 0 to {}", name, example,
            size() - 1);
  }
};

// Returns the checksum of the examples of a split, in order: 16 hexadecimal digits.
inline std::string examples_checksum(const Dataset& data) {
  Checksum sum;
  if (!data.add_examples_to(sum)) data.add_to(sum);
  return sum.hex();
}

// Returns the examples that are generated for a batch: all of them, but in a dry run at most 1024,
// from which the shapes of the whole batch are estimated.
inline std::span<const std::int64_t> examples_to_make(std::span<const std::int64_t> examples) {
  constexpr std::size_t most = 1024;
  return is_dry_run() ? examples.first(std::min(most, examples.size())) : examples;
}

}  // namespace tapestry
