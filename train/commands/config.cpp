#include "train/commands/command.hpp"
#include "train/run/terminal.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

class ShowConfig final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.config(config_);
    arguments.overrides(overrides_);
  }

  int run() override {
    say("{}", load_config(config_, overrides_).explain());
    return 0;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
};

const RegisterCommand<ShowConfig> config_command(
    "config", "print every key of a config: its value, where it comes from and what it sets");

}  // namespace
}  // namespace tapestry
