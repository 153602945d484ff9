#include <fmt/ranges.h>

#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "train/commands/command.hpp"
#include "train/commands/time_to_loss.hpp"
#include "train/config/config.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"
#include "train/tools/bench/benchmark.hpp"
#include "train/tools/bench/scaling.hpp"

namespace tapestry {
namespace {

// "57 % of 290 (best product 217)": the peak once, or twice where the clock moved by a tenth.
std::string share_of_peak(const BenchmarkResult& result) {
  const auto [low, high] = std::minmax(result.peak_before, result.peak_after);
  const std::string drift = low > 0.9 * high ? ""
                                             : fmt::format("{:.0f} before, {:.0f} after, ",
                                                           result.peak_before, result.peak_after);
  return fmt::format("{:>3.0f} % of {:.0f} ({}best product {:.0f})",
                     100 * result.gflops() / result.peak(), result.peak(), drift,
                     result.best_product);
}

void print_row(const std::string& name, const BenchmarkResult& result) {
  say("{:<16} {:>9.2f} ms ({:.2f} to {:.2f})  {:>8.0f} {}/s  ", name, result.step_s * 1e3,
      result.fastest_s * 1e3, result.slowest_s * 1e3, result.units / result.step_s, result.unit);
  if (result.flops > 0) say("{:>6.1f} GFLOP/s, {}  ", result.gflops(), share_of_peak(result));
  say("{:>5.0f} MB", result.peak_bytes / 1e6);
  if (result.first_step_s > 0) say("  first step after {:.2f} s", result.first_step_s);
  say("\n");
  if (result.gflops() > result.peak())
    say("{:<16} above 100 %: bfloat16 has a higher peak, or the clock rose while it ran\n", "");
}

void print_json(const std::string& name, const BenchmarkResult& result) {
  JsonValue object{{"name", name},
                   {"threads", num_threads()},
                   {"step_s", result.step_s},
                   {"fastest_s", result.fastest_s},
                   {"slowest_s", result.slowest_s},
                   {result.unit + "_per_s", result.units / result.step_s},
                   {"gflops", result.gflops()},
                   {"peak_gflops", result.peak()},
                   {"peak_before_gflops", result.peak_before},
                   {"peak_after_gflops", result.peak_after},
                   {"best_product_gflops", result.best_product},
                   {"share_of_peak", result.gflops() / result.peak()},
                   {"peak_bytes", result.peak_bytes}};
  if (result.first_step_s > 0) object["first_step_s"] = result.first_step_s;
  say("{}\n", object.dump());
}

void print_row(const std::string& name, const TimeToLoss& result) {
  say("{:<16} {:>9.2f} s to a loss of {:.4g} ({}{:.4g}), after {} steps and {} evaluations\n", name,
      result.seconds, goals().at(name), result.reached ? "" : "not reached: ", result.loss,
      result.steps, result.evaluations);
}

void print_json(const std::string& name, const TimeToLoss& result) {
  const JsonValue object{{"name", name},
                         {"threads", num_threads()},
                         {"goal", goals().at(name)},
                         {"reached", result.reached},
                         {"loss", result.loss},
                         {"seconds", result.seconds},
                         {"steps", result.steps},
                         {"evaluations", result.evaluations}};
  say("{}\n", object.dump());
}

// The names as they are, or, where there are none, all that there is.
template <class ByName>
std::vector<std::string> chosen(const std::vector<std::string>& names, const ByName& all) {
  std::vector<std::string> known;
  for (const auto& [name, value] : all) known.push_back(name);
  for (const std::string& name : names)
    expect_input(all.contains(name), "no benchmark {}{} ({})", name, did_you_mean(name, known),
                 fmt::join(known, ", "));
  return names.empty() ? known : names;
}

int list() {
  for (const auto& [name, benchmark] : benchmark_registry())
    say("{:<26} {}\n", name, benchmark.help);
  for (const auto& [name, goal] : goals()) say("{:<26} --time-to-loss: to {:.4g}\n", name, goal);
  return 0;
}

class Bench final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("NAME", names_, "benchmarks; all of them by default", false);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object a benchmark");
    arguments.flag("--scaling", scaling_, "print what 2 to 64 threads can gain at most");
    arguments.flag("--list", list_, "say what there is to measure, and measure nothing");
    arguments.flag("--time-to-loss", time_to_loss_,
                   "whole trainings of shipped configs, start-up and evaluations included");
    arguments.option("--data", data_, "the folder of what these trainings read; by default .");
  }

  int run() override {
    expect_input(data_.empty() || time_to_loss_, "--data: is not used without --time-to-loss");
    if (list_) return list();
    if (threads_ > 0) set_num_threads(static_cast<int>(threads_));
    return time_to_loss_ ? measure_trainings() : measure_steps();
  }

 private:
  int measure_steps() const {
    const std::vector<std::string> names = chosen(names_, benchmark_registry());
    if (!json_) say("{}\n", machine());
    for (const std::string& name : names)
      if (const Benchmark& benchmark = benchmark_registry().at(name); scaling_)
        say("{}: {}\n{}\n", name, benchmark.help,
            scaling_table([&](int threads) { return parts_of_step(threads, benchmark.measure); }));
      else
        show(name, benchmark.measure());
    return 0;
  }

  int measure_trainings() const {
    for (const std::string& name : chosen(names_, goals())) {
      const TimeToLoss result = time_to_loss(name, data_.empty() ? "." : data_, threads_);
      if (result.stopped) return interrupted_status;
      show(name, result);
    }
    return 0;
  }

  template <class Result>
  void show(const std::string& name, const Result& result) const {
    if (json_)
      print_json(name, result);
    else
      print_row(name, result);
    std::fflush(stdout);
  }

  std::vector<std::string> names_;
  std::string data_;
  std::int64_t threads_ = 0;
  bool json_ = false, scaling_ = false, list_ = false, time_to_loss_ = false;
};

const RegisterCommand<Bench> bench_command("bench",
                                           "measure the speed of this machine's training steps");

}  // namespace
}  // namespace tapestry
