#pragma once

#include <optional>

#include "layers/module.hpp"

namespace tapestry {

// A table of vectors: tokens (...) int32 in [0, V) -> (..., C), rows of weight (V, C).
class Embedding final : public Module {
 public:
  Parameter weight;

  Embedding(std::int64_t vocabulary, std::int64_t width, Random& init,
            double standard_deviation = 0.02);
  Tensor forward(const Array& tokens) const;
  void fields(FieldVisitor& visit) override;
};

// The encoding of positions in a transformer: added to the embeddings (learned, sinusoidal), by
// rotating queries and keys in self-attention (rotary; see autograd/ops/rotary.hpp), or not at all.
enum class Positions { learned, sinusoidal, rotary, none };

// Returns the position of each token in its document, given the documents' starts as for attention:
// (B, T) int32 -> (B, T) int32, or an empty array for an empty one.
Array positions_in_documents(const Array& starts);

struct PositionalEncodingOptions {
  Positions kind = Positions::learned;
  std::int64_t context = 0, width = 0;  // learned: number of positions, and C
  double standard_deviation = 0.02;     // learned: of the initial values
  double input_scale = 1;               // sinusoidal: factor of x
};

// Adds the encoding p of positions first, first + 1, …: x (B, T, C) -> (B, T, C), with one `first`
// for all examples, or one for each; or with the positions (B, T) int32 of all tokens.
// - learned: p is rows of weight (context, C).
// - sinusoidal: p(pos, 2k) = sin(pos / 10000^(2k/C)), p(pos, 2k+1) = cos(the same) (Vaswani et al.
//   2017, arXiv 1706.03762, section 3.5).
// - rotary, none: p is 0.
// Throws std::invalid_argument beyond the learned positions.
class PositionalEncoding final : public Module {
 public:
  PositionalEncodingOptions options;
  std::optional<Parameter> weight;  // (context, C), learned

  PositionalEncoding(const PositionalEncodingOptions& wanted, Random& init);
  Tensor forward(const Tensor& x, const std::vector<std::int64_t>& firsts = {0}) const;
  Tensor forward(const Tensor& x, const Array& positions) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor learned(std::int64_t first, std::int64_t T) const;  // (1, T, C)
};

}  // namespace tapestry
