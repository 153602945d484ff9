#include "data/outlier.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/counted.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t least_different = 16;  // a column with fewer has classes or small counts
constexpr std::int64_t repeated = 3;
constexpr double far_repeated = 5, far_once = 1000;  // times the range of the other values
constexpr double huge = 1e15;                        // the square of a larger value soon overflows

bool has_few_different(std::span<const float> sorted) {
  std::int64_t different = 1;
  for (std::size_t i = 1; i < sorted.size() && different < least_different; ++i)
    different += sorted[i] != sorted[i - 1];
  return different < least_different;
}

// Returns the first or last value of `sorted` if it is an outlier.
std::optional<Outlier> outlier_at_end(std::span<const float> sorted, bool at_front) {
  const float value = at_front ? sorted.front() : sorted.back();
  const std::size_t count = std::ranges::equal_range(sorted, value).size();
  const auto others = at_front ? sorted.subspan(count) : sorted.first(sorted.size() - count);
  if (others.empty()) return std::nullopt;
  const double low = others.front(), high = others.back(), range = high - low;
  const double gap = at_front ? low - value : value - high;
  const bool is_huge = gap > huge * std::max({1.0, std::abs(low), std::abs(high)});
  const bool is_far =
      !has_few_different(others) &&
      gap > range * (std::ssize(sorted) - std::ssize(others) >= repeated ? far_repeated : far_once);
  if (!is_huge && !is_far) return std::nullopt;
  return Outlier{.value = value,
                 .count = static_cast<std::int64_t>(count),
                 .low = others.front(),
                 .high = others.back()};
}

}  // namespace

std::optional<Outlier> outlier_of(std::vector<float> column) {
  std::erase_if(column, [](float x) { return !std::isfinite(x); });
  if (column.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(column);
  if (least >= 0 && most <= 1) return std::nullopt;
  std::ranges::sort(column);
  const auto low = outlier_at_end(column, true), high = outlier_at_end(column, false);
  if (!low || !high) return low ? low : high;
  return std::abs(low->value) > std::abs(high->value) ? low : high;
}

std::string outlier_text(const Outlier& outlier, const std::string& name) {
  return fmt::format(
      "column {}: the value {:.6g} occurs {}, all others are between {:.6g} and {:.6g}; if it "
      "marks missing values, leave these cells empty",
      name, outlier.value, counted(outlier.count, "time"), outlier.low, outlier.high);
}

}  // namespace tapestry
