#include "autograd/clock.hpp"
#include "train/commands/command.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/convert/import.hpp"
#include "train/trainer/compared_data.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

class Eval final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.adapter(adapter_);
    arguments.overrides(overrides_);
    arguments.threads(threads_);
    arguments.flag("--test", test_, "evaluate on the test split instead of the validation split");
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    if (threads_ > 0) overrides_.push_back(fmt::format("{}={}", key::threads.name, threads_));
    const TrainedModel trained = load_trained_with(adapter_, run_, overrides_, true);
    use_machine_as(trained.config);
    const double start_s = now_s();
    const Dataset* test = test_ ? trained.task->test_data() : nullptr;
    expect_input(test || !test_,
                 "--test: the data of this run have no test split; leave out --test to use the "
                 "validation split");
    const Dataset& data = test ? *test : trained.task->validation_data();
    const Metrics metrics = evaluate(*trained.task, data, trained.config);
    Ranks alone;
    expect_finite(metrics, test ? "test" : "validation", data, *trained.task, trained.config,
                  alone);
    const double elapsed_s = now_s() - start_s;
    const std::vector<Baseline> baselines = trained.task->baselines(data);
    const ComparedData compared = compare_evaluated(run_, trained, data, overrides_);
    if (json_)
      say("{}\n", MetricsLine{.step = trained.state.step,
                              .split = test ? "test" : "val",
                              .values = metrics,
                              .elapsed_s = elapsed_s,
                              .signatures = trained.task->signatures(),
                              .checksums = {{"parameters",
                                             checksums_of(tensors_of(trained.task->model(), {}))}},
                              .baselines = baselines,
                              .more = compared.json()}
                      .json());
    else
      say("step {}  {}: {}\n{}", trained.state.step, test ? "test" : "validation",
          show(metrics, trained.task->signatures()), show(baselines, metrics));
    if (!json_) say("{}", compared.text());
    return 0;
  }

 private:
  std::string run_, adapter_;
  std::vector<std::string> overrides_;
  std::int64_t threads_ = 0;
  bool test_ = false, json_ = false;
};

const RegisterCommand<Eval> eval_command(
    "eval", "evaluate a trained run on its whole validation or test split");

}  // namespace
}  // namespace tapestry
