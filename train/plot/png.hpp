#pragma once

#include "train/plot/figure.hpp"

namespace tapestry {

// As the bytes of a grey PNG: each image enlarged to 2H × 2W pixels, a dark pixel between them,
// values clamped to [0, 1].
std::string to_png(const PictureGrid& grid);

}  // namespace tapestry
