#include "train/commands/training_config.hpp"

#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/task.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

// Returns the part of a run's config that determines the shapes of its weights: task, model and
// tokenizer.
ConfigDocument model_of(const std::string& run) {
  const Checkpoint head = load_trained_metadata(run);
  const Config config = config_of(head);
  const std::string text =
      fmt::format("task = {}\n{}", to_toml(Value(config[key::task])),
                  config.toml({"model.", key::tokenizer.name, key::end_of_text.name}));
  return {head.path, text};
}

// Returns whether the data of a run are read and split by earlier rules than those of a new one.
bool has_earlier_rules(const Run& run) {
  return has_file(run.config()) &&
         Value(config_of(run)[key::data_rules]) != key::data_rules.fallback;
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
    beneath.push_back(model_of(from));
  }
  if (resumed && has_earlier_rules(*resumed))
    beneath.emplace_back(resumed->config(), config_of(*resumed).toml({key::data_rules.name}));
  return load_config(config, settings, beneath);
}

}  // namespace tapestry
