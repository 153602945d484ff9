#include "train/trainer/status_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <vector>

namespace tapestry {
namespace {

constexpr std::array<const char*, 8> levels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::int64_t curve_columns = 16;
constexpr double most_seconds = 1e9;

std::string as_time(double left) {
  const auto seconds = static_cast<std::int64_t>(left + 0.5);
  return seconds < 3600
             ? fmt::format("{}:{:02}", seconds / 60, seconds % 60)
             : fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace

std::string sparkline(std::span<const double> values, std::int64_t columns) {
  const auto count = std::ssize(values), shown = std::min<std::int64_t>(count, columns);
  std::vector<double> means;
  for (std::int64_t i = 0; i < shown; ++i) {
    const auto part =
        values.subspan(i * count / shown, (i + 1) * count / shown - i * count / shown);
    means.push_back(std::reduce(part.begin(), part.end()) / static_cast<double>(part.size()));
  }
  const auto is_finite = [](double mean) { return std::isfinite(mean); };
  if (means.empty() || !std::ranges::all_of(means, is_finite)) return "";
  const auto [low, high] = std::ranges::minmax(means);
  if (!std::isfinite(high - low)) return "";
  std::string line;
  for (const double mean : means) {
    const double height = high > low ? (mean - low) / (high - low) : 0;
    line += levels[std::min<std::size_t>(static_cast<std::size_t>(height * 8), 7)];
  }
  return line;
}

std::string status_line(const Status& status, std::int64_t columns) {
  struct Part {
    std::string text;
    std::int64_t columns;
    int rank;  // the least is left out last
  };
  const auto plain = [](std::string text, int rank) {
    const std::int64_t size = std::ssize(text);
    return Part{std::move(text), size, rank};
  };
  std::vector<Part> parts = {plain(fmt::format("step {}/{}", status.step, status.steps), 0),
                             plain(fmt::format("loss {:.4f}", status.loss), 0)};
  if (const std::int64_t curve = std::min(curve_columns, std::ssize(status.losses)); curve > 1)
    parts.push_back({sparkline(status.losses, curve), curve, 3});
  parts.push_back(plain(fmt::format("{:.0f} {}/s", status.units_per_s, status.unit), 2));
  if (status.seconds_left >= 0 && status.seconds_left < most_seconds)
    parts.push_back(plain(as_time(status.seconds_left) + " left", 1));
  if (status.memory_bytes > 0)
    parts.push_back(plain(fmt::format("{} MB", status.memory_bytes >> 20), 4));

  for (int rank = 4; rank > 0; --rank) {
    std::int64_t width = -2;
    for (const Part& part : parts) width += part.columns + 2;
    if (width <= columns) break;
    std::erase_if(parts, [&](const Part& part) { return part.rank == rank; });
  }
  std::string line;
  for (const Part& part : parts)
    if (!part.text.empty()) line += (line.empty() ? "" : "  ") + part.text;
  const bool too_long = parts.size() == 2 && std::ssize(line) > columns;
  return too_long ? line.substr(0, std::max<std::int64_t>(columns, 0)) : line;
}

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace tapestry
