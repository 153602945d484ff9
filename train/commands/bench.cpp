#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "autograd/parallel.hpp"
#include "train/bench/benchmark.hpp"
#include "train/bench/peaks.hpp"
#include "train/bench/scaling.hpp"
#include "train/commands/command.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"
#include "train/settings/config.hpp"

namespace tapestry {
namespace {

void print_row(const std::string& name, const BenchmarkResult& result, double peak) {
  const double gflops = result.flops / result.step_s / 1e9;
  say("{:<16} {:>9.2f} ms ({:.2f} to {:.2f})  {:>8.0f} {}/s  ", name, result.step_s * 1e3,
      result.fastest_s * 1e3, result.slowest_s * 1e3, result.units / result.step_s, result.unit);
  if (result.flops > 0)
    say("{:>6.1f} GFLOP/s, {:>3.0f} % of {:.0f}  ", gflops, 100 * gflops / peak, peak);
  say("{:>5.0f} MB", result.peak_bytes / 1e6);
  if (result.first_step_s > 0) say("  first step after {:.2f} s", result.first_step_s);
  say("\n");
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
  say("{}\n", object.dump());
}

class Bench final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("NAME", names_, "benchmarks; all of them by default", false);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object a benchmark");
    arguments.flag("--scaling", scaling_, "print what 2 to 64 threads can gain at most");
  }

  int run() override {
    const auto& registry = benchmark_registry();
    std::vector<std::string> known, wanted = names_;
    for (const auto& [name, benchmark] : registry) known.push_back(name);
    for (const std::string& name : wanted)
      expect_input(registry.contains(name), "no benchmark {}{} ({})", name,
                   did_you_mean(name, known), fmt::join(known, ", "));
    if (wanted.empty()) wanted = known;
    if (threads_ > 0) set_num_threads(static_cast<int>(threads_));
    if (!json_) say("{}\n", machine());
    for (const std::string& name : wanted) {
      if (scaling_) {
        say("{}: {}\n{}\n", name, registry.at(name).help,
            scaling_table(parts_of_step(registry.at(name).measure)));
        continue;
      }
      const BenchmarkResult result = registry.at(name).measure();
      const double peak = measure_matrix_peak();  // of the same moment: machines drift
      if (json_)
        print_json(name, result, peak);
      else
        print_row(name, result, peak);
      std::fflush(stdout);
    }
    return 0;
  }

 private:
  std::vector<std::string> names_;
  std::int64_t threads_ = 0;
  bool json_ = false, scaling_ = false;
};

const RegisterCommand<Bench> registered("bench",
                                        "measure the speed of this machine's training steps");

}  // namespace
}  // namespace tapestry
