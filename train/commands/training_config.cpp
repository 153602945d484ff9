#include "train/commands/training_config.hpp"

#include "data/input_file.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

// Returns the rules of a run's data as a setting, if they are not those of a new run.
std::optional<ConfigDocument> earlier_rules_of(const Run& run) {
  std::optional<Config> config;
  if (has_file(run.config()))
    config = recorded_config(run);
  else if (const std::optional<Checkpoint> latest = latest_checkpoint(run))
    config = config_of(*latest);
  if (!config || Value((*config)[key::data_rules]) == key::data_rules.fallback) return {};
  return ConfigDocument(run.folder(), config->toml({key::data_rules.name}));
}

}  // namespace

void TrainingArguments::declare(Arguments& arguments) {
  arguments.config(config);
  arguments.overrides(overrides);
  arguments.option("--from", from,
                   "start from the weights and the [model] section of this run or checkpoint "
                   "(default: none)");
  arguments.threads(threads);
}

Config TrainingArguments::read(const std::vector<std::string>& changes, const Run* resumed) const {
  std::vector<std::string> settings = overrides;
  if (threads > 0) settings.push_back(fmt::format("{}={}", key::threads.name, threads));
  settings.insert(settings.end(), changes.begin(), changes.end());
  std::vector<ConfigDocument> beneath;
  if (!from.empty()) {
    settings.push_back(fmt::format("{}={}", key::from.name, from));
    beneath.push_back(model_settings(from));
  }
  if (resumed)
    if (const std::optional<ConfigDocument> rules = earlier_rules_of(*resumed))
      beneath.push_back(*rules);
  return load_config(config, settings, beneath);
}

}  // namespace tapestry
