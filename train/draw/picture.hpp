#pragma once

#include <string>

#include "autograd/array.hpp"

namespace tapestry {

// images (N, H, W) float32 in [0, 1], enlarged to 2H × 2W pixels, row by row in a grid of
// `columns`, a dark pixel between them.
Array picture_grid(const Array& images, std::int64_t columns);

// (H, W) float32 in [0, 1], clamped, as the bytes of a grey PNG.
std::string to_png(const Array& picture);

}  // namespace tapestry
