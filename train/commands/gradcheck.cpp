#include "autograd/gradcheck.hpp"

#include <algorithm>

#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "train/commands/command.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/training_under_test.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

std::vector<GradcheckResult> check(const Config& config) {
  const std::unique_ptr<Task> task = make_task({config});
  convert_for_gradcheck(task->model());
  const auto objective = objective_in_float64(*task, config);
  return gradcheck_parameters(objective, task->model().parameters(),
                              {.directions = 2, .jacobian_limit = 0});
}

JsonValue json_of(const std::vector<GradcheckResult>& results, bool passed) {
  auto parameters = JsonValue::array();
  for (const GradcheckResult& result : results)
    parameters.push_back({{"parameter", result.name},
                          {"error", result.error},
                          {"passed", result.passed},
                          {"held", result.held}});
  return {{"passed", passed}, {"parameters", parameters}};
}

void print_results(const std::vector<GradcheckResult>& results, bool passed) {
  bool any_held = false;
  for (const GradcheckResult& result : results) {
    any_held |= result.held > 0;
    say("{:<48} {:.1e}  {}{}\n", result.name, result.error, result.passed ? "ok" : "WRONG",
        result.held > 0 ? fmt::format(", {} held", result.held) : "");
  }
  if (any_held)
    say("held: inputs of relu or max whose branch was kept fixed during the finite difference\n");
  say("{}: {}\n", counted(std::ssize(results), "parameter"),
      passed ? "all gradients agree" : "some gradients are wrong");
}

class CheckGradients final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.config(config_);
    arguments.overrides(overrides_);
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const Config config = load_config(config_, overrides_);
    use_machine_as(config);
    const std::vector<GradcheckResult> results = check(config);
    const bool passed = std::ranges::all_of(results, &GradcheckResult::passed);
    if (json_)
      print_json(json_of(results, passed));
    else
      print_results(results, passed);
    return passed ? 0 : 1;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
  bool json_ = false;
};

const RegisterCommand<CheckGradients> gradcheck_command(
    "gradcheck", "compare the gradients of a config's model with finite differences in float64");

}  // namespace
}  // namespace tapestry
