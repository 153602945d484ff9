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
  // From these bounds on, three digits of the smaller unit round up to 1000.
  if (seconds >= 0.9995 || seconds == 0) return fmt::format("{:.3g} s", seconds);
  return seconds >= 0.9995e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                              : fmt::format("{:.3g} us", seconds * 1e6);
}

namespace {

std::string with_prefix(double value, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t i = 0;
  while (value >= 999.5 && i + 1 < std::size(prefixes)) value /= 1000, ++i;
  return fmt::format("{:.3g} {}{}", value, prefixes[i], unit);
}

}  // namespace

std::string bytes_text(std::int64_t bytes) { return with_prefix(static_cast<double>(bytes), "B"); }

std::string flops_text(double flops) { return with_prefix(flops, "FLOP"); }

std::string count_text(std::int64_t numbers) {
  const auto value = static_cast<double>(numbers);
  if (numbers < 10000) return fmt::format("{}", numbers);
  return numbers < 1000000 ? fmt::format("{:.4g} k", value / 1e3)
                           : fmt::format("{:.4g} M", value / 1e6);
}

}  // namespace tapestry
