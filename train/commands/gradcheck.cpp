#include "autograd/gradcheck.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/commands/command.hpp"
#include "train/loop/trainer.hpp"
#include "train/run/terminal.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

// Moves every parameter a little: with biases of 0, features of 0 meet ReLU at its kink, where it
// has no derivative to check.
void leave_kinks(Module& model) {
  Random random(0, Stream::init);
  for (Parameter* parameter : model.parameters()) {
    if (parameter->role == Role::fixed) continue;
    Array value = parameter->value();
    for (double& x : value.mutable_values<double>()) x += 0.01 * random.normal();
  }
}

// Of a training step's objective, on a batch of two examples.
std::vector<GradcheckResult> check(const Config& config) {
  const std::uint64_t seed = seed_of(config);
  const std::unique_ptr<Task> task = make_task({config});
  task->model().convert(DType::float64);
  leave_kinks(task->model());
  const Dataset& data = task->training_data();
  const std::int64_t count = std::min<std::int64_t>(2, data.size());
  Sampler sampler(data.size(), task->order(), seed, {.batch = count, .lengths = data.lengths()});
  Batch batch = data.batch(sampler.next(count));
  if (batch.inputs.dtype() == DType::float32) batch.inputs = batch.inputs.to(DType::float64);
  const auto loss = [&] {
    Random noise(seed, Stream::dropout);
    // After any warm-up: every term of the loss counts.
    const Pass pass{.training = true, .step = config[key::steps], .noise = &noise};
    return task->loss(batch, pass).objective;
  };
  return gradcheck_parameters(loss, task->model().parameters(),
                              {.directions = 2, .jacobian_limit = 0});
}

void print_json(const std::vector<GradcheckResult>& results, bool passed) {
  auto parameters = nlohmann::ordered_json::array();
  for (const GradcheckResult& result : results)
    parameters.push_back({{"parameter", result.name},
                          {"error", result.error},
                          {"passed", result.passed},
                          {"held", result.held}});
  say("{}\n", nlohmann::ordered_json{{"passed", passed}, {"parameters", parameters}}.dump());
}

void print_lines(const std::vector<GradcheckResult>& results, bool passed) {
  bool any_held = false;
  for (const GradcheckResult& result : results) {
    any_held |= result.held > 0;
    say("{:<48} {:.1e}  {}{}\n", result.name, result.error, result.passed ? "ok" : "WRONG",
        result.held > 0 ? fmt::format(", {} held", result.held) : "");
  }
  if (any_held)
    say("held: elements of relu or max that a step took over a kink, and that stayed in "
        "their piece\n");
  say("{} arrays of parameters: {}\n", results.size(),
      passed ? "every gradient is right" : "some gradients are wrong");
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
      print_json(results, passed);
    else
      print_lines(results, passed);
    return passed ? 0 : 1;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
  bool json_ = false;
};

const RegisterCommand<CheckGradients> gradcheck_command(
    "gradcheck", "check the gradient of a configured model in float64");

}  // namespace
}  // namespace tapestry
