#include "train/tools/plan/plan.hpp"

#include "data/json.hpp"
#include "train/commands/command.hpp"
#include "train/commands/training_config.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

class PlanTraining final : public Command {
 public:
  void declare(Arguments& arguments) override {
    given_.declare(arguments);
    arguments.option("--ranks", ranks_, "number of processes that train together (default: 1)",
                     {.low = 1, .high = 4096});
    arguments.option("--memory", megabytes_,
                     "memory of the machine in MB (default: 0, that of this machine)",
                     {.low = 0, .high = std::int64_t{1} << 40});
    arguments.option("--seconds", seconds_,
                     "seconds to measure the throughput for; 0: no measurement (default: 5)",
                     {.low = 0, .high = 3600});
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const ConfigWith config_with = [this](const std::vector<std::string>& changes) {
      return given_.read(changes);
    };
    use_machine_as(config_with({}));
    const TrainingPlan plan = plan_training(config_with, {.ranks = static_cast<int>(ranks_),
                                                          .seconds = static_cast<double>(seconds_),
                                                          .machine = megabytes_ * 1000000});
    if (json_)
      print_json(json_of(plan));
    else
      say("{}", show(plan));
    return plan.fits() ? 0 : failed_status;
  }

 private:
  TrainingArguments given_;
  std::int64_t ranks_ = 1, megabytes_ = 0, seconds_ = 5;
  bool json_ = false;
};

const RegisterCommand<PlanTraining> plan_command(
    "plan", "estimate the memory, time and disk space of a training before its first step");

}  // namespace
}  // namespace tapestry
