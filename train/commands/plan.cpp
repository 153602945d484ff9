#include "train/tools/plan/plan.hpp"

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
    arguments.config(config_);
    arguments.overrides(overrides_);
    arguments.option("--from", from_, "as train would: begin with the weights of this run");
    arguments.threads(threads_);
    arguments.option("--ranks", ranks_, "of a training by so many processes",
                     {.low = 1, .high = 4096});
    arguments.option("--memory", megabytes_, "of a machine of so many MB; 0: of this one",
                     {.low = 0, .high = std::int64_t{1} << 40});
    arguments.option("--seconds", seconds_, "to measure the pace for; 0: from shapes alone",
                     {.low = 0, .high = 3600});
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const ConfigWith config_with = [this](const std::vector<std::string>& changes) {
      std::vector<std::string> overrides = overrides_;
      if (threads_ > 0) overrides.push_back(fmt::format("train.threads={}", threads_));
      overrides.insert(overrides.end(), changes.begin(), changes.end());
      return training_config(config_, overrides, from_);
    };
    use_machine_as(config_with({}));
    const TrainingPlan plan = plan_training(config_with, {.ranks = static_cast<int>(ranks_),
                                                          .seconds = static_cast<double>(seconds_),
                                                          .machine = megabytes_ * 1000000});
    say("{}", json_ ? json(plan) + "\n" : show(plan));
    return plan.fits() ? 0 : failed_status;
  }

 private:
  std::string config_, from_;
  std::vector<std::string> overrides_;
  std::int64_t threads_ = 0, ranks_ = 1, megabytes_ = 0, seconds_ = 5;
  bool json_ = false;
};

const RegisterCommand<PlanTraining> plan_command(
    "plan", "what a training will take: memory, time and disk, before its first step");

}  // namespace
}  // namespace tapestry
