#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tapestry {

// A value at one end of a column that is far from all other values.
struct Outlier {
  float value = 0;
  std::int64_t count = 0;   // number of occurrences
  float low = 0, high = 0;  // minimum and maximum of the other values
};

// Returns an outlier of a column, which probably stands for a missing value: one that occurs at
// least three times at 5 times the range of the other values from them, or any at 1000 times this
// range. Columns with few different values, or with values in [0, 1], have none.
std::optional<Outlier> outlier_of(std::vector<float> column);

}  // namespace tapestry
