#include <cmath>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/series/series.hpp"

namespace tapestry {
namespace {

// 3 waves of one series.
struct Wave {
  double period, amplitude, phase;
};

std::vector<Wave> draw_waves(Random& random) {
  std::vector<Wave> waves(3);
  for (Wave& wave : waves)
    wave = {random.uniform(6, 60), random.uniform(0.5, 1), random.uniform(0, 2 * std::numbers::pi)};
  return waves;
}

double height(const std::vector<Wave>& waves, double row) {
  double sum = 0;
  for (const Wave& wave : waves)
    sum += wave.amplitude * std::sin(2 * std::numbers::pi * row / wave.period + wave.phase);
  return sum;
}

}  // namespace

SeriesTable make_waves(const WaveOptions& options) {
  const std::int64_t M = options.series, rows = options.rows;
  require(M >= 1 && rows >= 2, "make_waves: {} series of {} rows", M, rows);
  SeriesTable table{.path = "waves", .values = Array({rows, M})};
  const auto values = table.values.mutable_values<float>();
  for (std::int64_t m = 0; m < M; ++m) {
    Random random(options.seed, Stream::data, static_cast<std::uint64_t>(m));
    const std::vector<Wave> waves = draw_waves(random);
    table.names.push_back(fmt::format("wave {}", m + 1));
    for (std::int64_t row = 0; row < rows; ++row)
      values[row * M + m] = static_cast<float>(height(waves, static_cast<double>(row)) +
                                               options.noise * random.normal());
  }
  constexpr std::int64_t first = 946'684'800, hour_s = 3600;  // 2000-01-01 00:00:00
  for (std::int64_t row = 0; row < rows; ++row) table.times.push_back(first + row * hour_s);
  return table;
}

}  // namespace tapestry
