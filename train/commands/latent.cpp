#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/inspect/values.hpp"
#include "train/measure/machine.hpp"
#include "train/run/run.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

class ShowLatent final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.overrides(overrides_);
    arguments.option(
        "--out", out_,
        "file to write: NAME.csv, NAME.png, NAME.svg, or NAME for all three (default: RUN/latent)");
  }

  int run() override {
    const TrainedModel trained = load_trained(run_, overrides_, true);
    use_machine_as(trained.config);
    const LatentCodes codes = spec_of(trained.config).latent_codes.show(*trained.task);
    const std::string out = out_.empty() ? in_run(run_, "latent") : out_;
    write_table_and_figure(out, latent_csv(codes), latent_scatter(codes));
    return 0;
  }

 private:
  std::string run_, out_;
  std::vector<std::string> overrides_;
};

const RegisterCommand<ShowLatent> latent_command(
    "latent", "write and draw the latent codes of an autoencoder's images");

}  // namespace
}  // namespace tapestry
