#pragma once

#include <fmt/format.h>

#include <cmath>

#include "data/series/series.hpp"

namespace tapestry {

// Returns hours from 2020-02-28 22:00 on, across a leap day.
inline std::string csv(std::int64_t rows) {
  std::string text = "date,load,oil\n";
  for (std::int64_t row = 0; row < rows; ++row)
    text += fmt::format("{},{},{}\n", time_text({1582927200 * second_us + row * hour_us}),
                        std::sin(0.3 * static_cast<double>(row)), 20 - row % 5);
  return text;
}

}  // namespace tapestry
