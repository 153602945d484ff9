#pragma once

#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "data/json.hpp"

// Arrays as the page's arrayOf() reads them: their dtype, shape, and bytes in base64.
namespace tapestry {

JsonValue as_floats(const Array& array);
JsonValue as_halves(const Array& array);  // float32, rounded to float16
JsonValue as_bytes(const Array& array);   // of [0, 1], in 255 steps
JsonValue as_integers(const std::vector<std::int32_t>& values, const Shape& shape);
JsonValue as_labels(const std::vector<std::string>& texts);  // each of one line

}  // namespace tapestry
