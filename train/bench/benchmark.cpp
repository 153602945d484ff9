#include "train/bench/benchmark.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "autograd/check.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "train/commands/commands.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

double time_once(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double fastest_time(const std::function<void()>& work) {
  work();
  double fastest = time_once(work);
  for (int i = 0; i < 12; ++i) fastest = std::min(fastest, time_once(work));
  return fastest;
}

// Since the process started, by the kernel's account (to 10 ms).
double process_age_s() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;  // the 22nd: starttime, in clock ticks
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double peak_resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

void forget_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

void print_row(const std::string& name, const BenchmarkResult& result, double peak) {
  const double gflops = result.flops / result.step_s / 1e9;
  fmt::print("{:<16} {:>9.2f} ms ({:.2f} to {:.2f})  {:>8.0f} {}/s  ", name, result.step_s * 1e3,
             result.fastest_s * 1e3, result.slowest_s * 1e3, result.units / result.step_s,
             result.unit);
  if (result.flops > 0)
    fmt::print("{:>6.1f} GFLOP/s, {:>3.0f} % of {:.0f}  ", gflops, 100 * gflops / peak, peak);
  fmt::print("{:>5.0f} MB", result.peak_bytes / 1e6);
  if (result.first_step_s > 0) fmt::print("  first step after {:.2f} s", result.first_step_s);
  fmt::print("\n");
}

void print_json(const std::string& name, const BenchmarkResult& result, double peak) {
  const double gflops = result.flops / result.step_s / 1e9;
  nlohmann::ordered_json object{{"name", name},
                                {"threads", num_threads()},
                                {"step_s", result.step_s},
                                {"fastest_s", result.fastest_s},
                                {"slowest_s", result.slowest_s},
                                {result.unit + "_per_s", result.units / result.step_s},
                                {"gflops", gflops},
                                {"peak_gflops", peak},
                                {"share_of_peak", gflops / peak},
                                {"peak_bytes", result.peak_bytes}};
  if (result.first_step_s > 0) object["first_step_s"] = result.first_step_s;
  fmt::print("{}\n", object.dump());
}

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
  std::vector<double> times;
  double total = 0;
  while (std::ssize(times) < options.least_steps || total < options.least_s) {
    times.push_back(time_once(step));
    total += times.back();
  }
  std::ranges::sort(times);
  result.step_s = times[times.size() / 2];
  result.fastest_s = times.front();
  result.slowest_s = times.back();
  result.peak_bytes = peak_resident_bytes();
  return result;
}

double measure_matrix_peak() {
  constexpr std::int64_t n = 1536;
  Array a({n, n}), b({n, n}), c({n, n});
  Random random(0, Stream::init);
  random.fill_uniform(a, -1, 1);
  random.fill_uniform(b, -1, 1);
  const auto multiply = [&] {
    multiply_matrices({.m = n, .n = n, .k = n}, {{a.raw(), b.raw(), c.mutable_raw()}});
  };
  return 2.0 * n * n * n / fastest_time(multiply) / 1e9;
}

double measure_memory_peak() {
  constexpr std::int64_t n = 1 << 24;  // 64 MB each: beyond the caches
  Array a = Array::zeros({n});
  const Array b = Array::zeros({n});
  return 3.0 * static_cast<double>(a.bytes()) / fastest_time([&] { add_in_place(a, b); }) / 1e9;
}

int bench_command(const BenchCommand& command) {
  const auto& registry = benchmark_registry();
  std::vector<std::string> known, wanted = command.names;
  for (const auto& [name, benchmark] : registry) known.push_back(name);
  for (const std::string& name : wanted)
    expect_input(registry.contains(name), "no benchmark {}; did you mean {}? ({})", name,
                 nearest(name, known), fmt::join(known, ", "));
  if (wanted.empty()) wanted = known;
  if (command.threads > 0) set_num_threads(static_cast<int>(command.threads));
  if (!command.json) fmt::print("{}\n", machine());
  for (const std::string& name : wanted) {
    const BenchmarkResult result = registry.at(name).measure();
    const double peak = measure_matrix_peak();  // of the same moment: machines drift
    if (command.json)
      print_json(name, result, peak);
    else
      print_row(name, result, peak);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace tapestry
