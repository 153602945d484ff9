#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/values.hpp"
#include "train/measure/machine.hpp"
#include "train/run/run.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/compared_data.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

JsonValue json_of(const LatentCodes& codes, const std::string& out) {
  std::int64_t images = 0;
  for (const LatentSplit& split : codes.splits) images += split.z.shape()[0];
  return {{"out", out}, {"images", images}, {"dimensions", codes.splits.front().z.shape()[1]}};
}

class ShowLatent final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.overrides(overrides_);
    arguments.option(
        "--out", out_,
        "file to write: NAME.csv, NAME.png, NAME.svg, or NAME for all three (default: RUN/latent)");
    arguments.flag("--json", json_, "print one JSON object, and everything else to standard error");
  }

  int run() override {
    if (json_) leave_output_to_json();
    const TrainedModel trained = load_trained(run_, overrides_, true);
    use_machine_as(trained.config);
    const LatentCodes codes = spec_of(trained.config).latent_codes.show(*trained.task);
    expect_usable(codes, trained.config[key::task]);
    const std::string out = out_.empty() ? in_run(run_, "latent") : out_;
    write_table_and_figure(out, latent_csv(codes), latent_scatter(codes));
    Task& task = *trained.task;
    const ComparedData compared = compare_data(
        trained, {&task.training_data(), &task.validation_data(), task.test_data()}, overrides_);
    say("{}", compared.text());
    if (json_) {
      JsonValue object = json_of(codes, out);
      object.update(compared.json());
      print_json(object);
    }
    return 0;
  }

 private:
  std::string run_, out_;
  std::vector<std::string> overrides_;
  bool json_ = false;
};

const RegisterCommand<ShowLatent> latent_command(
    "latent", "write and draw the latent codes of an autoencoder's images");

}  // namespace
}  // namespace tapestry
