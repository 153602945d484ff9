#pragma once

#include <optional>

#include "layers/module.hpp"

namespace tapestry {

// How a transformer tells where a token stands: an encoding that is added to the embeddings
// (learned, sinusoidal), queries and keys that self-attention turns by their positions (rotary,
// autograd/ops/rotary.hpp), or not at all.
enum class Positions { learned, sinusoidal, rotary, none };

// How far each token stands from the first of its document: starts (B, T) int32, as attention has
// them -> (B, T) int32; of an empty array an empty one.
Array positions_in_documents(const Array& starts);

struct PositionalEncodingOptions {
  Positions kind = Positions::learned;
  std::int64_t context = 0, width = 0;  // learned: as many positions as the context has
  double standard_deviation = 0.02;     // learned: of the normal distribution they start from
  double input_scale = 1;               // sinusoidal: x is multiplied by it first
};

// x (B, T, C) -> x + p (T, C) where p is the encoding of positions first, first + 1, …: of one
// `first` for all examples, or of each one's own.
// learned:      p is rows of weight (context, C).
// sinusoidal:   p(pos, 2k) = sin(pos / 10000^(2k/C)), p(pos, 2k+1) = cos(the same) (Vaswani et al.
//               2017, §3.5).
// rotary, none: p is 0.
// std::invalid_argument where learned positions end. A second form is told each token's position.
class PositionalEncoding final : public Module {
 public:
  PositionalEncodingOptions options;
  std::optional<Parameter> weight;  // (context, C), learned

  PositionalEncoding(const PositionalEncodingOptions& wanted, Random& init);
  Tensor forward(const Tensor& x, const std::vector<std::int64_t>& firsts = {0}) const;
  Tensor forward(const Tensor& x, const Array& positions) const;  // (B, T) int32
  void fields(FieldVisitor& visit) override;

 private:
  Tensor learned(std::int64_t first, std::int64_t T) const;  // (1, T, C)
};

}  // namespace tapestry
