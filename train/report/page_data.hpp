#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/array.hpp"

// Arrays as the page's arrayOf() reads them: their dtype, shape, and bytes in base64.
namespace tapestry {

nlohmann::ordered_json as_floats(const Array& array);
nlohmann::ordered_json as_halves(const Array& array);  // float32, rounded to float16
nlohmann::ordered_json as_bytes(const Array& array);   // of [0, 1], in 255 steps
nlohmann::ordered_json as_integers(const std::vector<std::int32_t>& values, const Shape& shape);
nlohmann::ordered_json as_labels(const std::vector<std::string>& texts);  // each of one line

}  // namespace tapestry
