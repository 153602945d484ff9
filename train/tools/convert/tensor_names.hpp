#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "train/tools/convert/architectures.hpp"

namespace tapestry {

// The names and layouts that tensors of an architecture have in the files of other programs.
enum class TensorFormat { huggingface, gguf };
struct TensorNames {
  TensorFormat format;
  Architecture architecture;
};

// A tensor of another program, and the rows of a parameter of ours that it holds.
struct TensorPlace {
  std::string theirs{};        // "model.layers.0.self_attn.q_proj.weight"
  std::int64_t first_row = 0;  // first row in our tensor
  std::int64_t rows = 0;       // number of rows in our tensor
  bool transposed = false;     // theirs is (in, out)
  // The number of heads whose rows are in another order, because one program rotates the columns 2k
  // and 2k + 1 of a head together, and the other k and k + D/2. 0: the same order.
  std::int64_t reordered_heads = 0;
  bool halves_here = false;  // this program has the halves

  Shape shape(const Shape& ours) const;  // returns the shape in the other program
};

// Returns the tensors that hold a parameter of that shape: its queries, keys and values, for
// example. Throws InputError if the architecture has no such parameter.
std::vector<TensorPlace> places_of(const TensorNames& names, const Config& config,
                                   const std::string& parameter, const Shape& shape);

// Returns the name of the tensor that holds a parameter that is not divided: "head.weight".
std::string tensor_name(const TensorNames& names, const std::string& parameter);

// The factors of Llama 3's scaling of rotary positions in GGUF files.
inline constexpr const char* rotary_factors_name = "rope_freqs.weight";

// Returns whether the tensor holds constants that follow from the config.
bool is_constant(const TensorNames& names, const Config& config, const std::string& tensor);

Array to_published(const TensorPlace& place, const Array& ours);  // float32
void from_published(const TensorPlace& place, const Array& theirs, Array ours);

}  // namespace tapestry
