#include "train/measure/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>

#include "autograd/clock.hpp"
#include "autograd/kernels/limits.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

double fastest_time(const std::function<void()>& work) {
  work();
  double fastest = time_once(work);
  for (int i = 0; i < 12; ++i) fastest = std::min(fastest, time_once(work));
  return fastest;
}

}  // namespace

double time_once(const std::function<void()>& work) {
  const double start = now_s();
  work();
  return now_s() - start;
}

double measure_arithmetic_peak() {
  constexpr std::int64_t rows_a_thread = 32, times = 20'000;  // takes some milliseconds
  Array x = Array::full({rows_a_thread * num_threads(), limit_columns}, 1);
  const double flops = 2.0 * times * static_cast<double>(x.size());
  return flops / fastest_time([&] { turn_signs(x, times); }) / 1e9;
}

double measure_best_product() {
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
  constexpr std::int64_t rows = 1 << 16;  // 200 MB: beyond most caches
  Array x = Array::full({rows, limit_columns}, 1);
  return 2.0 * static_cast<double>(x.bytes()) / fastest_time([&] { turn_signs(x, 1); }) / 1e9;
}

double process_age_s(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t end_of_name = text.rfind(')');  // of field 2
  if (end_of_name == text.npos) return 0;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  std::int64_t start = 0;  // field 22, in clock ticks
  if (!(fields >> start)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         static_cast<double>(start) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void use_machine_as(const Config& config) {
  if (config[key::threads] > 0) set_num_threads(static_cast<int>(config[key::threads]));
  set_matmul_precision(config[key::precision]);
}

}  // namespace tapestry
