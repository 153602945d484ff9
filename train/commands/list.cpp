#include "train/commands/command.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

class List final : public Command {
 public:
  void declare(Arguments&) override {}

  int run() override {
    std::size_t width = 0;
    for (const auto& [name, text] : shipped_configs()) width = std::max(width, name.size());
    for (const auto& [name, text] : shipped_configs()) {
      const Config config = parse_config(text, name, {});
      const std::string first = text.substr(0, text.find('\n'));
      say("{:<{}}  {}\n", name, width, first.substr(first.find_first_not_of("# ")));
      const std::string& metric = config[key::expected_metric];
      if (metric.empty()) continue;
      const std::string& data = config[key::expected_data];
      say("{:<{}}  {} {} ({}{}{})\n", "", width, metric, config[key::expected_value], data,
          data.empty() ? "" : ": ", config[key::expected_source]);
    }
    return 0;
  }
};

const RegisterCommand<List> list_command("list",
                                         "list the shipped configs and their expected results");

}  // namespace
}  // namespace tapestry
