#include "train/measure/quantities.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace tapestry {

std::string duration_text(double seconds) {
  constexpr std::int64_t minute = 60, hour = 60 * minute, day = 24 * hour;
  if (!(std::abs(seconds) < 1e9)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole >= 2 * day) return fmt::format("{} d {} h", whole / day, whole % day / hour);
  if (whole >= hour) return fmt::format("{} h {} min", whole / hour, whole % hour / minute);
  if (whole >= 10 * minute) return fmt::format("{} min", whole / minute);
  if (seconds >= 1 || seconds == 0) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                         : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) value /= 1000, ++unit;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

std::string count_text(std::int64_t numbers) {
  const auto value = static_cast<double>(numbers);
  if (numbers < 10000) return fmt::format("{}", numbers);
  return numbers < 1000000 ? fmt::format("{:.4g} k", value / 1e3)
                           : fmt::format("{:.4g} M", value / 1e6);
}

}  // namespace tapestry
