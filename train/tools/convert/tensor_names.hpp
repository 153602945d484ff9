#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "train/tools/convert/architectures.hpp"

namespace tapestry {

// A tensor of a published model, and the rows of a parameter of ours that it is.
struct TensorPlace {
  std::string theirs{};            // "model.layers.0.self_attn.q_proj.weight"
  std::int64_t first_row = 0;      // of ours
  std::int64_t rows = 0;           // of ours
  bool transposed = false;         // theirs is (in, out)
  std::int64_t neighbours_of = 0;  // heads whose columns turn by neighbours here, by halves there
  std::int64_t halves_of = 0;      // and the other way round

  Shape shape(const Shape& ours) const;  // of theirs
};

// Where the parts of a parameter of ours are in a published model: its queries, keys and values,
// say. Nothing where the architecture has no such parameter.
// `turns_neighbours`: rotary positions turn column 2k with 2k + 1 here, as k with k + D/2 there.
std::vector<TensorPlace> places_of(Architecture architecture, const std::string& parameter,
                                   const Shape& shape, const HeadCounts& counts,
                                   bool turns_neighbours);

// The same in a GGUF file, where no weights are transposed, and the columns of a `llama` turn by
// neighbours.
std::vector<TensorPlace> gguf_places_of(Architecture architecture, const std::string& parameter,
                                        const Shape& shape, const HeadCounts& counts,
                                        bool turns_neighbours);

// What a published file may hold beside the model's tensors: constants that follow from the config.
bool is_constant(Architecture architecture, const std::string& tensor);

Array to_published(const TensorPlace& place, const Array& ours);  // float32
void from_published(const TensorPlace& place, const Array& theirs, Array ours);

}  // namespace tapestry
