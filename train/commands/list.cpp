#include "data/json.hpp"
#include "train/commands/command.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

void print(const std::string& name, std::size_t width, const std::string& description,
           const Config& config) {
  say("{:<{}}  {}\n", name, width, description);
  const std::string& data = config[key::expected_data];
  if (!config[key::expected_metric].empty())
    say("{:<{}}  expected: {} {} ({}{}{})\n", "", width, config[key::expected_metric],
        config[key::expected_value], data, data.empty() ? "" : ": ", config[key::expected_source]);
}

JsonValue json_of(const std::string& name, const std::string& description, const Config& config) {
  JsonValue json{{"name", name},
                 {"task", config[key::task]},
                 {"description", description},
                 {"expected", JsonValue()}};
  if (!config[key::expected_metric].empty())
    json["expected"] = {{"metric", config[key::expected_metric]},
                        {"value", config[key::expected_value]},
                        {"data", config[key::expected_data]},
                        {"source", config[key::expected_source]}};
  return json;
}

class List final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.flag("--json", json_, "print one JSON object per config");
  }

  int run() override {
    std::size_t width = 0;
    for (const auto& [name, text] : shipped_configs()) width = std::max(width, name.size());
    for (const auto& [name, text] : shipped_configs()) {
      const Config config = parse_config(text, name, {});
      const std::size_t begin = text.find_first_not_of("# ");
      const std::string description = text.substr(begin, text.find('\n') - begin);
      if (json_)
        print_json(json_of(name, description, config));
      else
        print(name, width, description, config);
    }
    return 0;
  }

 private:
  bool json_ = false;
};

const RegisterCommand<List> list_command("list",
                                         "list the shipped configs and their expected results");

}  // namespace
}  // namespace tapestry
