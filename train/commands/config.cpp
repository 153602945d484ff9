#include <sstream>

#include "train/commands/command.hpp"
#include "train/commands/guide_pages.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

// Adds "; tapestry guide PAGE" to each line of a key that a page of the course explains.
std::string with_pages(const std::string& explained) {
  std::istringstream lines(explained);
  std::string text, table;
  for (std::string line; std::getline(lines, line); text += line + "\n") {
    if (line.starts_with('[')) table = line.substr(1, line.find(']') - 1) + ".";
    const std::size_t name = line.starts_with("# ") ? 2 : 0, end = line.find(" = ");
    if (end == line.npos) continue;
    const std::string page = page_explaining(table + line.substr(name, end - name));
    if (!page.empty()) line += "; tapestry guide " + page;
  }
  return text;
}

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
    say("{}", json_ ? config.json() + "\n" : with_pages(config.explain()));
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
