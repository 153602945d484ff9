#include "train/commands/command.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

class ShowConfig final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.config(config_);
    arguments.overrides(overrides_);
    arguments.flag(
        "--json", json_,
        "print one JSON object with type, range, choices, default and aliases of every key");
  }

  int run() override {
    const Config config = load_config(config_, overrides_);
    say("{}", json_ ? config.json() + "\n" : config.explain());
    return 0;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
  bool json_ = false;
};

const RegisterCommand<ShowConfig> config_command(
    "config", "print every key of a config: its value, its origin and its meaning");

}  // namespace
}  // namespace tapestry
