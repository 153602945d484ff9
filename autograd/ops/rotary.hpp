#pragma once

#include <optional>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// Which columns of a head of width D are turned together: 2k and 2k + 1, as in the paper, or k and
// k + D/2, as in LLaMA's published weights.
enum class RotaryPairs { neighbours, halves };

// Llama 3.1's: waves longer than the context that the model was first trained on are slowed down.
// Of `original_context` / low_frequency steps and more by the factor, of fewer than
// `original_context` / high_frequency not at all, and in between by a blend of both.
struct RotaryScaling {
  double factor = 8, low_frequency = 1, high_frequency = 4;
  std::int64_t original_context = 8192;
};

struct RotaryForm {
  RotaryPairs pairs = RotaryPairs::neighbours;
  double base = 10000;
  std::optional<RotaryScaling> scaling{};
};

// The angle of each pair of columns of a head of width D from one position to the next: D / 2.
std::vector<double> rotary_rates(std::int64_t D, const RotaryForm& form);

struct RotaryOptions {
  std::int64_t head_width = 0;  // D, of heads side by side in a row; 0: the row is one head
  std::int64_t columns = -1;  // only the first so many, which are whole heads, are turned; -1: all
  // The position of the first of the T rows: one for all of the examples before them, or one each.
  std::vector<std::int64_t> firsts{0};
  Array positions{};  // int32, not negative, in place of firsts: of each row of x its own; or empty
  RotaryForm form{};
};

// Rotary positions: x (..., T, C) -> (..., T, C) with pair k of every head's columns turned by the
// angle position · base^(-2k/D) (Su et al. 2021, arXiv 2104.09864, eq. 34), so that products of
// queries with keys depend on the difference of their positions. std::invalid_argument unless D
// is even and heads fill the columns. Fused: the composition would copy x six times.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
