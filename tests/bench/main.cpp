#include <fmt/ranges.h>

#include <cstdio>
#include <vector>

#include "autograd/parallel.hpp"
#include "data/json.hpp"
#include "tests/bench/time_to_loss.hpp"
#include "tests/bench/workloads.hpp"
#include "train/commands/command.hpp"
#include "train/commands/command_line.hpp"
#include "train/config/config.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"

// tapestry-bench: the command `workloads`, which the program runs with all of its arguments.
namespace tapestry {
namespace {

std::string show(const std::string& name, const TimeToLoss& result) {
  return fmt::format(
      "{:<16} {:>9.2f} s to a loss of {:.4g} ({}{:.4g}), after {} steps and {} evaluations\n", name,
      result.seconds, goals().at(name), result.reached ? "" : "not reached: ", result.loss,
      result.steps, result.evaluations);
}

JsonValue json_of(const std::string& name, const TimeToLoss& result) {
  return {{"name", name},
          {"threads", num_threads()},
          {"goal", goals().at(name)},
          {"reached", result.reached},
          {"loss", result.loss},
          {"seconds", result.seconds},
          {"steps", result.steps},
          {"evaluations", result.evaluations}};
}

// Returns the given names, or all that are known if none is given. Throws InputError for an unknown
// name.
template <class ByName>
std::vector<std::string> chosen(const std::vector<std::string>& names, const ByName& all) {
  std::vector<std::string> known;
  for (const auto& [name, value] : all) known.push_back(name);
  for (const std::string& name : names)
    expect_input(all.contains(name), "{}: no such benchmark{}; expected one of {}", name,
                 did_you_mean(name, known), fmt::join(known, ", "));
  return names.empty() ? known : names;
}

int list() {
  for (const auto& [name, workload] : workloads()) say("{:<26} {}\n", name, workload.help);
  for (const auto& [name, goal] : goals()) say("{:<26} --time-to-loss: to {:.4g}\n", name, goal);
  return 0;
}

class Workloads final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("NAME", names_, "workloads or, with --time-to-loss, configs (default: all)",
                     false);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object per benchmark");
    arguments.flag("--list", list_, "print the names, and measure nothing");
    arguments.flag("--time-to-loss", time_to_loss_,
                   "train shipped configs to a validation loss, start-up and evaluations included");
    arguments.option("--data", data_, "folder of the data of --time-to-loss (default: .)");
  }

  int run() override {
    expect_input(data_.empty() || time_to_loss_, "--data: is not used without --time-to-loss");
    if (list_) return list();
    if (threads_ > 0) set_num_threads(static_cast<int>(threads_));
    return time_to_loss_ ? measure_trainings() : measure_workloads();
  }

 private:
  int measure_workloads() const {
    const std::vector<std::string> names = chosen(names_, workloads());
    if (!json_) say("{}\n", machine());
    for (const std::string& name : names) print(name, workloads().at(name).measure());
    return 0;
  }

  int measure_trainings() const {
    for (const std::string& name : chosen(names_, goals())) {
      const TimeToLoss result = time_to_loss(name, data_.empty() ? "." : data_, threads_);
      if (result.stopped) return interrupted_status;
      print(name, result);
    }
    return 0;
  }

  template <class Result>
  void print(const std::string& name, const Result& result) const {
    if (json_)
      print_json(json_of(name, result));
    else
      say("{}", show(name, result));
    std::fflush(stdout);
  }

  std::vector<std::string> names_;
  std::string data_;
  std::int64_t threads_ = 0;
  bool json_ = false, list_ = false, time_to_loss_ = false;
};

const RegisterCommand<Workloads> workloads_command("workloads", "measure workloads of developers");

}  // namespace
}  // namespace tapestry

// train/main.cpp calls it after it has loaded this library.
extern "C" int tapestry_main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string command = "workloads";
  arguments.insert(arguments.begin() + 1, command.data());
  return tapestry::run_command_line(argc + 1, arguments.data());
}
