#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>

namespace tapestry {

// What `tapestry bench` reports of one workload.
struct BenchmarkResult {
  double step_s = 0;  // the median of the timed steps
  double fastest_s = 0, slowest_s = 0;
  double units = 0;         // tokens or images a step
  std::string unit = "";    // "tokens" or "images"
  double flops = 0;         // of the model's matrix products and attention, a step
  double peak_bytes = 0;    // resident in the process, at most: exact for its first workload
  double first_step_s = 0;  // from the start of the process to the end of the first step
  // GFLOP/s of float32: what the processor can do, before and after the timed steps, and the best
  // product of its engine.
  double peak_before = 0, peak_after = 0, best_product = 0;

  double gflops() const { return flops / step_s / 1e9; }
  double peak() const { return std::max(peak_before, peak_after); }
};

struct Benchmark {
  std::string help;
  std::function<BenchmarkResult()> measure;
};

// Workloads by name; workloads.cpp registers them.
std::map<std::string, Benchmark>& benchmark_registry();

struct RegisterBenchmark {
  RegisterBenchmark(const std::string& name, Benchmark benchmark) {
    benchmark_registry()[name] = std::move(benchmark);
  }
};

struct TimingOptions {
  int warm_up = 3;  // steps that are not timed, the first of them noted
  int least_steps = 10;
  double least_s = 1.0;
};
inline constexpr const char* between_steps = "between steps";  // marked so, before each timed step
BenchmarkResult time_steps(const std::function<void()>& step, const TimingOptions& options = {});

}  // namespace tapestry
