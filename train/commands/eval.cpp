#include <filesystem>

#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "data/text/printable.hpp"
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
    arguments.option(
        "--data", "PATH", [this](const std::string& path) { path_ = path; },
        "evaluate on all examples of this file or folder, with the tokenizer, classes and scales "
        "of "
        "the run (default: a split of the run's data)");
    arguments.option(
        "--importance", "K", [this](const std::string& samples) { importance_ = samples; },
        "also estimate the importance-weighted bound of a variational autoencoder, with K samples "
        "of each image (default: none)");
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    if (threads_ > 0) overrides_.push_back(fmt::format("{}={}", key::threads.name, threads_));
    expect_input(!path_ || !test_,
                 "--data: all of the data are evaluated; leave out --test, which chooses a split");
    expect_input(!path_ || !path_->empty(), "--data: is empty; give a file or folder");
    if (path_)
      overrides_.push_back(fmt::format("{}={}", key::data_path.name, to_toml(Value(*path_))));
    if (importance_) add_importance();
    const TrainedModel trained =
        load_trained_with(adapter_, run_, overrides_, true, path_.has_value());
    use_machine_as(trained.config);
    const double start_s = now_s();
    const Dataset* test = test_ ? trained.task->test_data() : nullptr;
    expect_input(test || !test_,
                 "--test: the data of this run have no test split; leave out --test to use the "
                 "validation split");
    const Dataset& data = test ? *test : trained.task->validation_data();
    const EvaluationOptions options(trained.config);
    const Metrics metrics = evaluate(*trained.task, data, options);
    Ranks alone;
    const std::string split = path_ ? "data" : test ? "test" : "validation";
    expect_finite(metrics, split, data, *trained.task, options, alone);
    const double elapsed_s = now_s() - start_s;
    ComparedData compared = compare_evaluated(run_, trained, data, overrides_);
    const std::vector<Baseline> baselines =
        baselines_of(*trained.task, data, compared, split == "validation" ? "val" : split);
    if (path_) compared.splits.clear();  // these are no split of the run
    JsonValue more = compared.json();
    more["examples"] = data.size();
    std::string counted_text = counted(data.size(), "example");
    if (trained.task->unit() == std::string("tokens")) {
      const std::int64_t tokens = count_targets(data, options);
      more["tokens"] = tokens;
      counted_text += ", " + counted(tokens, "token");
    }
    if (const std::int64_t unmeasured = trained.task->unmeasured(); unmeasured > 0)
      more["unmeasured"] = unmeasured;
    if (json_)
      say("{}\n", MetricsLine{.step = trained.state.step,
                              .split = split == "validation" ? "val" : split,
                              .values = metrics,
                              .elapsed_s = elapsed_s,
                              .signatures = trained.task->signatures(),
                              .checksums = {{"parameters",
                                             checksums_of(tensors_of(trained.task->model(), {}))}},
                              .baselines = baselines,
                              .more = std::move(more)}
                      .json());
    else
      say("step {}  {}: {}  ({})\n{}{}", trained.state.step, split,
          show(metrics, trained.task->signatures()), counted_text, show(baselines, metrics),
          compared.text());
    const std::string remark = trained.task->remark();
    if ((path_ || trained.task->unmeasured() > 0) && !json_ && !remark.empty()) say("{}\n", remark);
    return 0;
  }

 private:
  void add_importance() {
    constexpr const char* name = "train.importance_samples";
    expect_input(config_of(load_trained_metadata(run_), {}).declares(name),
                 "--importance: {} has no variational autoencoder, but only that has this bound; "
                 "leave out --importance",
                 printable(run_));
    expect_input(*importance_ != "0", "--importance 0: expected at least 1 sample");
    overrides_.push_back(fmt::format("{}={}", name, *importance_));
  }

  // Returns the baselines that the run recorded for these data, or else fits them again.
  std::vector<Baseline> baselines_of(Task& task, const Dataset& data, const ComparedData& compared,
                                     const std::string& split) const {
    using enum ComparedData::Outcome;
    if (!path_ && !compared.splits.empty() &&
        (compared.splits.front().outcome == same || compared.splits.front().outcome == built_in) &&
        !chooses_data(overrides_) && std::filesystem::is_directory(run_)) {
      SplitBaselines recorded = read_baselines(Run(run_));
      if (const auto found = recorded.find(split); found != recorded.end()) return found->second;
    }
    const Dataset* const split_data[] = {&data};
    std::vector<Baselines> found = task.baselines(split_data);
    return found.empty() ? Baselines() : std::move(found.front());
  }

  std::string run_, adapter_;
  std::optional<std::string> path_, importance_;
  std::vector<std::string> overrides_;
  std::int64_t threads_ = 0;
  bool test_ = false, json_ = false;
};

const RegisterCommand<Eval> eval_command(
    "eval", "evaluate a trained run on its whole validation or test split, or on other data");

}  // namespace
}  // namespace tapestry
