#include "train/measure/step_speed.hpp"

#include <fmt/format.h>

#include <fstream>
#include <numeric>
#include <vector>

#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/statistics.hpp"

namespace tapestry {
namespace {

double peak_resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

// Returns "57 % of peak 290 (matrix product: 217)", with both peaks if they differ by more than a
// tenth.
std::string fraction_of_peak(const StepSpeed& speed) {
  const auto [low, high] = std::minmax(speed.peak_before, speed.peak_after);
  const std::string drift = low > 0.9 * high ? ""
                                             : fmt::format("{:.0f} before, {:.0f} after, ",
                                                           speed.peak_before, speed.peak_after);
  return fmt::format("{:>3.0f} % of peak {:.0f} ({}matrix product: {:.0f})",
                     100 * speed.gflops() / speed.peak(), speed.peak(), drift, speed.best_product);
}

}  // namespace

StepTimes time_steps(const std::function<void()>& step, const TimingOptions& options) {
  StepTimes times{.first_s = time_once(step)};
  const bool is_once = times.first_s > options.longest_first_s || options.most_steps == 0;
  for (int i = 1; i < options.warm_up && !is_once; ++i) step();
  std::vector<double> seconds;
  double total = 0;
  while (!is_once && std::ssize(seconds) < options.most_steps &&
         (std::ssize(seconds) < options.least_steps || total < options.least_s)) {
    seconds.push_back(time_once(step));
    total += seconds.back();
  }
  if (is_once) seconds.push_back(times.first_s);
  times.steps = std::ssize(seconds);
  times.median_s = median_of(seconds);
  times.mean_s = std::reduce(seconds.begin(), seconds.end()) / static_cast<double>(times.steps);
  times.fastest_s = std::ranges::min(seconds);
  times.slowest_s = std::ranges::max(seconds);
  return times;
}

StepSpeed step_speed(const std::function<void()>& step, const TimingOptions& options) {
  static bool is_first = true;
  StepSpeed speed;
  reset_peak_resident();
  const double age_s = process_age_s();
  const double first_s = time_once(step);
  for (int i = 1; i < options.warm_up; ++i) step();
  speed.peak_before = measure_arithmetic_peak();
  TimingOptions warm = options;
  warm.warm_up = 1;
  speed.times = time_steps(step, warm);
  speed.times.first_s = first_s;
  if (is_first && age_s > 0) speed.first_step_s = age_s + first_s;
  is_first = false;
  speed.peak_bytes = peak_resident_bytes();
  speed.peak_after = measure_arithmetic_peak();
  speed.best_product = measure_best_product();
  return speed;
}

std::string show(const std::string& name, const StepSpeed& speed) {
  std::string text =
      fmt::format("{:<16} {:>9.2f} ms/step ({:>6.2f} to {:>7.2f})  {:>8.0f} {}/s  ", name,
                  speed.times.median_s * 1e3, speed.times.fastest_s * 1e3,
                  speed.times.slowest_s * 1e3, speed.units / speed.times.median_s, speed.unit);
  if (speed.flops > 0)
    text += fmt::format("{:>6.1f} GFLOP/s, {}  ", speed.gflops(), fraction_of_peak(speed));
  text += fmt::format("{:>5.0f} MB memory", speed.peak_bytes / 1e6);
  if (speed.first_step_s > 0)
    text += fmt::format("  first step after {:.2f} s", speed.first_step_s);
  if (speed.gflops() > speed.peak())
    text += fmt::format(
        "\n{:<16} more than 100 %: bfloat16 has a higher peak, or the clock frequency rose", "");
  return text + "\n";
}

JsonValue json_of(const std::string& name, const StepSpeed& speed) {
  JsonValue object{{"name", name},
                   {"threads", num_threads()},
                   {"step_s", speed.times.median_s},
                   {"fastest_s", speed.times.fastest_s},
                   {"slowest_s", speed.times.slowest_s},
                   {speed.unit + "_per_s", speed.units / speed.times.median_s},
                   {"gflops", speed.gflops()},
                   {"peak_gflops", speed.peak()},
                   {"peak_before_gflops", speed.peak_before},
                   {"peak_after_gflops", speed.peak_after},
                   {"best_product_gflops", speed.best_product},
                   {"share_of_peak", speed.gflops() / speed.peak()},
                   {"peak_bytes", speed.peak_bytes}};
  if (speed.first_step_s > 0) object["first_step_s"] = speed.first_step_s;
  return object;
}

}  // namespace tapestry
