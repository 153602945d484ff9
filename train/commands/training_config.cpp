#include "train/commands/training_config.hpp"

#include "train/config/keys.hpp"
#include "train/run/run.hpp"
#include "train/task.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

// The model of a run: what a config that begins with its weights need not say again.
ConfigText model_of(const std::string& run) {
  const Checkpoint head = trained_head(run);
  const Config config = config_of(head);
  const std::string text =
      fmt::format("task = {}\n{}", to_toml(Value(config[key::task])),
                  config.toml({"model.", key::tokenizer.name, key::end_of_text.name}));
  return {.source = head.path, .text = text};
}

}  // namespace

Config training_config(const std::string& path_or_name, std::vector<std::string> overrides,
                       const std::string& from) {
  if (from.empty()) return load_config(path_or_name, overrides);
  const ConfigText model = model_of(from);
  overrides.push_back(fmt::format("{}={}", key::from.name, from));
  return load_config(path_or_name, overrides, model);
}

}  // namespace tapestry
