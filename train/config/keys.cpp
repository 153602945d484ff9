#include "train/config/keys.hpp"

#include <algorithm>

#include "optim/optimizer.hpp"
#include "train/config/search_settings.hpp"

namespace tapestry::key {
namespace {

KeyInfo named_optimizer() {
  KeyInfo key = optimizer;
  for (const auto& [choice, type] : optimizer_registry()) {
    expect_input(type.registrations == 1,
                 "optimizer {}: registered {} times; give each optimizer another name", choice,
                 type.registrations);
    key.limits.choices.push_back(choice);
  }
  return key;
}

// Returns a condition that holds for the optimizers that have the setting.
Condition has_setting(const std::string& setting) {
  Condition condition{.key = optimizer.name, .values = {}};
  for (const auto& [optimizer_name, type] : optimizer_registry())
    if (type.has(setting)) condition.values.emplace_back(optimizer_name);
  return condition;
}

// Returns a condition that excludes the optimizers that average the weights.
const Condition& keeps_no_average() {
  static const Condition condition = [] {
    Condition excluding{.key = optimizer.name, .values = {}, .excludes = true};
    for (const auto& [optimizer_name, type] : optimizer_registry())
      if (type.make({}, {})->averages()) excluding.values.emplace_back(optimizer_name);
    return excluding;
  }();
  return condition;
}

// Returns a key of what the average takes the place of: a schedule that decays, another average.
KeyInfo without_average(KeyInfo key) {
  key.limits.used_if.push_back(keeps_no_average());
  return key;
}

// Returns the settings of all optimizers, each once: in the place of the last optimizer that has
// it.
std::vector<KeyInfo> optimizer_keys() {
  std::vector<KeyInfo> keys;
  for (const auto& [optimizer_name, type] : optimizer_registry())
    for (const OptimizerSetting& setting : type.settings) {
      const Value fallback = std::visit([](auto value) { return Value(value); }, setting.fallback);
      const KeyInfo key{of_optimizer(setting.name),
                        fallback,
                        setting.help,
                        {.low = setting.range.low,
                         .high = setting.range.high,
                         .used_if = {has_setting(setting.name)}}};
      std::erase_if(keys, [&](const KeyInfo& other) { return other.name == key.name; });
      keys.push_back(key);
    }
  return keys;
}

}  // namespace

std::vector<KeyInfo> with_common_keys(const std::vector<KeyInfo>& task_keys) {
  std::vector<KeyInfo> keys{task, plugin, name, seed, data_path, data_rules};
  const auto append = [&](const std::vector<KeyInfo>& more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  const auto append_section = [&](const std::string& section) {
    for (const KeyInfo& own : task_keys)
      if (own.name.starts_with(section) && std::ranges::count(keys, own.name, &KeyInfo::name) == 0)
        keys.push_back(own);
  };
  append_section("data.");
  append_section("model.");
  append({adapter_rank, adapter_alpha, adapter_dropout, adapter_targets});
  keys.push_back(named_optimizer());
  append({learning_rate, without_average(final_learning_rate), without_average(schedule),
          warmup_steps, without_average(decay_steps), without_average(cooldown_steps)});
  append(optimizer_keys());
  append({groups, clip_norm});
  append({from, trainable, steps, batch_size, micro_batches, shard_optimizer, eval_every,
          eval_batch_size, checkpoint_every, log_every, without_average(average_decay),
          early_stopping, min_delta, time_limit, tensorboard, samples, threads, precision,
          check_finite});
  append({max_bad_steps, bad_step_factor});
  append_section("train.");
  append({expected_metric, expected_value, expected_data, expected_source});
  append(search_settings.keys());
  return keys;
}

std::string of_optimizer(const std::string& setting) { return "optim." + setting; }

}  // namespace tapestry::key

namespace tapestry {

std::uint64_t seed_of(const Config& config) {
  return static_cast<std::uint64_t>(config[key::seed]);
}

std::unique_ptr<Optimizer> make_optimizer(const Config& config,
                                          std::vector<Parameter*> parameters) {
  const OptimizerType& type = optimizer_registry().at(config[key::optimizer]);
  OptimizerValues values;
  for (const OptimizerSetting& setting : type.settings)
    values[setting.name] = std::visit(
        [&]<class T>(T) -> OptimizerValue {
          return std::get<T>(config.value(key::of_optimizer(setting.name)));
        },
        setting.fallback);
  std::unique_ptr<Optimizer> made = type.make(std::move(parameters), values);
  for (const std::string& text : config[key::groups]) {
    const ParameterGroup group = parameter_group(config, key::groups, text);
    config.expect(!group.options.weight_decay || type.has(weight_decay_setting), key::groups,
                  "{} sets a decay, which {} = \"{}\" does not have; leave out the decay",
                  to_toml(Value(text)), key::optimizer.name, config[key::optimizer]);
    expect_match(config, key::groups, group.pattern, made->parameters());
    for (const Parameter* parameter : made->parameters())
      if (group.has_options && matches(group.pattern, parameter->name))
        made->set_options(*parameter, group.options);
  }
  return made;
}

std::vector<ParameterGroup> l2_groups(const Config& config, std::vector<std::string> groups) {
  std::ranges::copy(config[key::groups], std::back_inserter(groups));
  std::vector<ParameterGroup> with_l2;
  for (const std::string& text : groups)
    if (ParameterGroup group = parameter_group(config, key::groups, text); group.l2)
      with_l2.push_back(std::move(group));
  return with_l2;
}

std::vector<L2Term> l2_terms(const std::vector<ParameterGroup>& groups,
                             std::vector<Parameter*> parameters) {
  std::vector<L2Term> terms;
  for (const Parameter* parameter : distinct_parameters(std::move(parameters))) {
    if (parameter->role == Role::fixed) continue;
    double factor = 0;
    for (const ParameterGroup& group : groups)
      if (matches(group.pattern, parameter->name)) factor = *group.l2;
    if (factor > 0) terms.push_back({parameter, factor});
  }
  return terms;
}

bool averages_weights(const Config& config) {
  return config[key::average_decay] > 0 ||
         optimizer_registry().at(config[key::optimizer]).make({}, {})->averages();
}

Schedule make_schedule(const Config& config) {
  const std::int64_t steps = config[key::steps], cooldown = config[key::cooldown_steps];
  config.expect(config[key::schedule] != Decay::exponential ||
                    config[key::final_learning_rate] > 0 || config[key::learning_rate] == 0,
                key::final_learning_rate,
                "an exponential schedule ends above 0; set a positive learning rate");
  return {.decay = config[key::schedule],
          .peak = config[key::learning_rate],
          .floor = config[key::final_learning_rate],
          .warmup = config[key::warmup_steps],
          .steps = config[key::decay_steps] > 0 ? config[key::decay_steps] : steps,
          .cooldown = config[key::schedule] != Decay::stable_linear ? 0
                      : cooldown > 0                                ? cooldown
                                     : std::max<std::int64_t>(1, steps / 10)};
}

}  // namespace tapestry
