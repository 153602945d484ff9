#include "train/tools/bench/benchmark.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>

#include "autograd/profile.hpp"
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

void forget_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace

std::map<std::string, Benchmark>& benchmark_registry() {
  static std::map<std::string, Benchmark> registry;
  return registry;
}

BenchmarkResult time_steps(const std::function<void()>& step, const TimingOptions& options) {
  static bool first_workload = true;
  BenchmarkResult result;
  forget_peak_resident();
  for (int i = 0; i < options.warm_up; ++i) {
    step();
    if (first_workload && i == 0) result.first_step_s = process_age_s();
  }
  first_workload = false;
  const bool is_compared = !profile::keeps_loops();  // whose step runs on one thread
  if (is_compared) result.peak_before = measure_arithmetic_peak();
  std::vector<double> times;
  double total = 0;
  while (std::ssize(times) < options.least_steps || total < options.least_s) {
    profile::mark(profile::Phase::step, between_steps, nullptr, 0);
    times.push_back(time_once(step));
    total += times.back();
  }
  result.step_s = median_of(times);
  const auto [fastest, slowest] = std::ranges::minmax(times);
  result.fastest_s = fastest;
  result.slowest_s = slowest;
  result.peak_bytes = peak_resident_bytes();
  if (!is_compared) return result;
  result.peak_after = measure_arithmetic_peak();
  result.best_product = measure_best_product();
  return result;
}

}  // namespace tapestry
