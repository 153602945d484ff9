#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapestry {

// Returns a count with its noun: "1 step", "2 steps". The plural is the noun and "s", unless
// `plural` is given: "2 classes".
inline std::string counted(std::int64_t count, std::string_view noun,
                           std::string_view plural = {}) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

}  // namespace tapestry
