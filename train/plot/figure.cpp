#include "train/plot/figure.hpp"

#include <algorithm>
#include <cmath>

namespace tapestry {

Array attention_colors(const Array& weights) {
  Array colors = weights.clone();
  const std::int64_t H = weights.dim(0), size = weights.size() / H;
  for (std::int64_t h = 0; h < H; ++h) {
    const auto head = colors.mutable_values<float>().subspan(h * size, size);
    const float most = std::ranges::max(head);
    for (float& weight : head) weight = weight > 0 ? std::sqrt(weight / most) : 0;
  }
  return colors;
}

}  // namespace tapestry
