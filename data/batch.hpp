#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"
#include "autograd/check.hpp"

namespace tapestry {

// What a generated text is compared with.
struct Reference {
  std::string line{};
  bool source_cut = false;  // the source lost tokens
};

// The auxiliary inputs of an encoder–decoder model, whose encoder reads the sources.
struct SourceTokens {
  Array tokens{};                       // (B, S) int32
  Array padding{};                      // (B, S) int32: 1 where a token is padding, else 0
  std::vector<Reference> references{};  // B of them
};

// The auxiliary inputs of a graph network, whose inputs are the features (N, F) of the nodes:
// graphs side by side as one, of which graph g has the nodes [first_nodes[g], first_nodes[g + 1]),
// int32. Where the examples are single nodes, first_nodes is empty.
struct GraphPart {
  Adjacency adjacency{};
  Array first_nodes{};
  // Where most features are zero, the batch's inputs are the others' values (E, 1): they stand at
  // these entries of (N, F).
  std::optional<Adjacency> features{};
};

// The auxiliary inputs of a language model whose rows hold several documents: where each token's
// document starts in its row, (B, T) int32, as attention has it.
struct DocumentStarts {
  Array starts{};
};

// What a model reads in addition to the inputs of a batch, if it does.
using Auxiliary = std::variant<std::monostate, SourceTokens, GraphPart, DocumentStarts>;

// What one step of training or evaluation reads.
struct Batch {
  Array inputs;   // what the model sees, first axis B
  Array targets;  // what it should say, first axis B
  double count;   // loss terms: targets that are not ignored, or images
  Auxiliary auxiliary{};

  bool has_auxiliary() const { return !std::holds_alternative<std::monostate>(auxiliary); }

  // Returns the auxiliary inputs of this type, or null if the batch has others or none.
  template <class T>
  const T* find() const {
    return std::get_if<T>(&auxiliary);
  }
  // Returns them. Throws std::invalid_argument if the batch has others or none.
  template <class T>
  const T& part() const {
    const T* found = find<T>();
    require(found != nullptr, "Batch: it has no auxiliary inputs of the requested type");
    return *found;
  }
};

// In `targets` of token batches: no loss at this position.
inline constexpr std::int32_t ignored_target = -1;

// Returns a batch of a dry run, in which every target counts.
inline Batch with_all_counted(Batch batch) {
  batch.count = static_cast<double>(batch.targets.size());
  return batch;
}

}  // namespace tapestry
