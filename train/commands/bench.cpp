#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "autograd/parallel.hpp"
#include "autograd/profile.hpp"
#include "data/input_file.hpp"
#include "train/commands/command.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/step_speed.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

constexpr const char* developers_program =
    "moved to the developers' program tapestry-bench, which is built with the tests "
    "(tests/bench/README.md)";

// The configs to measure if none is given, which read no file.
constexpr std::array default_configs = {"sort", "clothes-vae", "waves", "graphs"};

// A callback that counts the tokens or examples of steps.
class UnitCount final : public Callback {
 public:
  void on_step_end(const ComputedStep& computed, bool) override {
    units_ += computed.units;
    ++steps_;
  }
  double per_step() const { return units_ / steps_; }

 private:
  double units_ = 0, steps_ = 0;
};

// Runs the trainer's next step and returns its number of FLOP, as its kernels count them.
double flops_of_step(Trainer& trainer) {
  double flops = 0;
  for (const profile::Event& event : profile::events_of([&] { trainer.step(); }))
    flops += event.flops;
  return flops;
}

// Measures training steps of a config, and returns their times, units and FLOP. Writes no files.
StepSpeed speed_of(const Config& config) {
  const std::unique_ptr<Task> task = begin_task(config);
  const std::atomic<bool> never = false;
  Ranks alone;
  UnitCount units;
  Trainer trainer(*task, config, Run(""), nullptr, never, alone);
  trainer.add(units);
  StepSpeed speed = step_speed([&] { trainer.step(); });
  speed.units = units.per_step();
  speed.unit = task->unit();
  speed.flops = flops_of_step(trainer);
  return speed;
}

class Bench final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("CONFIG", names_,
                     fmt::format("TOML files, or names of shipped configs (default: {})",
                                 fmt::join(default_configs, ", ")),
                     false);
    arguments.overrides(overrides_);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object per config");
    for (const char* option : {"--time-to-loss", "--list", "--data"})
      arguments.moved(option, developers_program);
  }

  int run() override {
    if (threads_ > 0) overrides_.push_back(fmt::format("{}={}", key::threads.name, threads_));
    if (names_.empty()) names_.assign(default_configs.begin(), default_configs.end());
    std::vector<Config> configs;
    for (const std::string& name : names_) {
      expect_config(name);
      configs.push_back(load_config(name, overrides_));
    }
    const int threads = num_threads();
    for (std::size_t i = 0; i < configs.size(); ++i) {
      set_num_threads(threads);  // for configs that do not set train.threads
      use_machine_as(configs[i]);
      const StepSpeed speed = speed_of(configs[i]);
      if (i == 0 && !json_) say("{}\n", machine());
      if (json_)
        print_json(json_of(names_[i], speed));
      else
        say("{}", show(names_[i], speed));
      std::fflush(stdout);
    }
    if (!json_)
      say("peak: measured float32 GFLOP/s of all threads, to which the percentages refer; matrix "
          "product: that of large matrices\n");
    return 0;
  }

 private:
  static void expect_config(const std::string& name) {
    std::vector<std::string> shipped;
    for (const auto& [known, text] : shipped_configs()) shipped.push_back(known);
    expect_input(
        is_there(name) || is_shipped(name),
        "{}: no such file and no shipped config of that name{}; benchmarks of single ops {}", name,
        did_you_mean(name, shipped), developers_program);
  }

  std::vector<std::string> names_, overrides_;
  std::int64_t threads_ = 0;
  bool json_ = false;
};

const RegisterCommand<Bench> bench_command(
    "bench", "measure the speed of a config's training steps on this machine");

}  // namespace
}  // namespace tapestry
