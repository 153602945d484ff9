#pragma once

#include <optional>
#include <vector>

#include "train/tools/doctor/check.hpp"

namespace tapestry {

// A value at one end of a column, which is far from all others of it.
struct Outlier {
  float value = 0;
  std::int64_t count = 0;   // how often it occurs
  float low = 0, high = 0;  // of the other values
};

// Returns the value of a column that is so far from all others that it stands for something else:
// at least three times the same value, 5 times as far from the others as these are apart, or any
// that is 1000 times as far. Nothing of columns with few different values, and of such in [0, 1].
std::optional<Outlier> outlier_of(std::vector<float> column);

// The fault of a column of any split in which there is one, such as -99999 or 1e38.
std::optional<Fault> outlying_value(TrainingUnderTest& under_test);

}  // namespace tapestry
