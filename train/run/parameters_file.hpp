#pragma once

#include <string>

#include "layers/module.hpp"

namespace tapestry {

// Writes the parameters of a model by their names, as safetensors. Throws FileError if that fails.
void save_parameters(Module& model, const std::string& path);

// Reads all parameters of a model from a safetensors file. Throws InputError that names the file if
// it is damaged, and for a tensor that is missing, has another shape or dtype, or is not in the
// model, which is then unchanged; std::invalid_argument between a forward pass and backward().
void load_parameters(Module& model, const std::string& path);

}  // namespace tapestry
