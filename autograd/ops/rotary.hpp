#pragma once

#include <optional>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// The columns of a head of width D that form pair k: 2k and 2k + 1 (neighbors), as in the paper, or
// k and k + D/2 (halves), as in LLaMA's published weights.
enum class RotaryPairs { neighbors, halves };

// The frequency scaling of Llama 3.1 (Dubey et al. 2024, arXiv 2407.21783) for contexts longer than
// the original one: wavelengths above original_context / low_frequency steps are multiplied by
// `factor`, those below original_context / high_frequency are kept, and those between are blended.
struct RotaryScaling {
  double factor = 8, low_frequency = 1, high_frequency = 4;
  std::int64_t original_context = 8192;
};

struct RotaryForm {
  RotaryPairs pairs = RotaryPairs::neighbors;
  double base = 10000;
  std::optional<RotaryScaling> scaling{};
};

// Returns the rotation of each pair of columns per position, in radians: (D / 2).
std::vector<double> rotary_rates(std::int64_t D, const RotaryForm& form);

struct RotaryOptions {
  std::int64_t head_width = 0;  // D, if a row has several heads; 0: the row is one head
  std::int64_t columns = -1;    // number of leading columns, whole heads, that are rotated; -1: all
  // The position of the first of the T rows: one for all examples, or one for each.
  std::vector<std::int64_t> firsts{0};
  Array positions{};  // int32: the position of each row, in place of `firsts`; or empty
  RotaryForm form{};
};

// Applies rotary position embeddings: x (..., T, C) -> (..., T, C), where pair k of each head's
// columns is rotated by position · base^(-2k/D) radians (Su et al. 2021, arXiv 2104.09864, eq. 34).
// Throws std::invalid_argument unless D is even and divides the columns, and for options that do
// not fit. Fused: the composition copies x six times.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
