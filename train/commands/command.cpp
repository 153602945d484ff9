#include "train/commands/command.hpp"

namespace tapestry {

std::map<std::string, CommandType>& command_registry() {
  static std::map<std::string, CommandType> registry;
  return registry;
}

void Arguments::config(std::string& value) {
  place("CONFIG", value, "a TOML file, or the name of a shipped config");
}

void Arguments::run(std::string& value) { place("RUN", value, "a run's folder, or a checkpoint"); }

void Arguments::adapter(std::string& value) {
  option("--adapter", value, "add the adapter of this folder to the model, as peft keeps one");
}

void Arguments::overrides(std::vector<std::string>& values) {
  option("--set", values, "KEY=VALUE", "set a key of the config: key=value");
}

void Arguments::threads(std::int64_t& value) {
  option("--threads", value, "by default one a physical core", {.low = 1, .high = 1024});
}

}  // namespace tapestry
