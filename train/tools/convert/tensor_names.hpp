#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "train/tools/convert/architectures.hpp"

namespace tapestry {

// The formats of tensor names and layouts in files of other programs.
enum class TensorFormat { huggingface, gguf };
struct TensorNames {
  TensorFormat format;
  Architecture architecture;
};

// A tensor of another program, and its rows in a parameter of ours.
struct TensorPlace {
  std::string theirs{};        // "model.layers.0.self_attn.q_proj.weight"
  std::int64_t first_row = 0;  // first row in our tensor
  std::int64_t rows = 0;       // number of rows in our tensor
  bool transposed = false;     // theirs is (in, out)
  // Number of heads whose rows are in another order, because one program rotates the columns 2k and
  // 2k + 1 of a head together, and the other k and k + D/2. 0: the same order.
  std::int64_t reordered_heads = 0;
  bool halves_here = false;  // whether this program has k and k + D/2

  Shape shape(const Shape& ours) const;  // returns the shape in the other program
};

// Returns the tensors that have the rows of a parameter of this shape: its queries, keys and
// values, for example. Throws InputError if the architecture has no such parameter.
std::vector<TensorPlace> places_of(const TensorNames& names, const TransformerGiven& model,
                                   const std::string& parameter, const Shape& shape);

// Returns the name of the tensor with all rows of a parameter such as "head.weight". Throws
// InputError if the architecture has no such parameter.
std::string tensor_name(const TensorNames& names, const std::string& parameter);

// The factors of Llama 3's scaling of rotary positions in GGUF files.
inline constexpr const char* rotary_factors_name = "rope_freqs.weight";

// Returns whether the tensor holds constants that the config determines.
bool is_constant(const TensorNames& names, const TransformerGiven& model,
                 const std::string& tensor);

// Return our rows as float32 in the other program's order, and copy `theirs` into `ours`. The
// latter throws std::invalid_argument unless `theirs` has place.shape().
Array to_published(const TensorPlace& place, const Array& ours);
void from_published(const TensorPlace& place, const Array& theirs, Array ours);

}  // namespace tapestry
