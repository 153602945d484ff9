#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

// A value at one end of a column that is far from all other values.
struct Outlier {
  float value = 0;
  std::int64_t count = 0;   // number of occurrences
  float low = 0, high = 0;  // minimum and maximum of the other values
};

// Returns an outlier of a column, which probably stands for a missing value: the minimum or maximum
// if its distance from the other values is over 1000 times their range, or over 5 times if it
// occurs at least three times; or over 1e15 times their magnitude. If the others have fewer than 16
// different values, only the last rule holds. If both ends are outliers, returns the one of larger
// magnitude; nothing for columns with values in [0, 1] only. Values that are not finite are left
// out.
std::optional<Outlier> outlier_of(std::vector<float> column);

// Returns a sentence about an outlier of the column with this name, and what to do.
std::string outlier_text(const Outlier& outlier, const std::string& name);

}  // namespace tapestry
