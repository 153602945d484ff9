#pragma once

#include <optional>
#include <vector>

#include "autograd/ops/rotary.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/gguf_file.hpp"

// Llama 3's scaling of rotary positions in a GGUF file: a tensor of the factors that it comes to.
namespace tapestry {

inline constexpr const char* rotary_factors_name = "rope_freqs.weight";

// How often slower each pair of columns of a head of width D turns than without scaling: (D / 2).
Array rotary_factors(std::int64_t D, const RotaryForm& form);

// What it is made of, which llama.cpp does not read.
std::vector<GgufField> rotary_scaling_fields(const RotaryScaling& scaling);

// The scaling that the factors come of: by those fields or, in a file of others, by the numbers
// that Llama 3.1 to 3.3 have. Nothing where it is another one.
std::optional<RotaryScaling> read_rotary_scaling(Fields& fields, const Array& factors,
                                                 const RotaryForm& unscaled);

}  // namespace tapestry
