#include "train/settings/keys.hpp"

#include <filesystem>

namespace tapestry::key {

std::vector<KeyInfo> with_common_keys(const std::vector<KeyInfo>& task_keys) {
  std::vector<KeyInfo> keys{task, name, seed, data_path};
  const auto append_section = [&](const std::string& section) {
    for (const KeyInfo& own : task_keys)
      if (own.name.starts_with(section)) keys.push_back(own);
  };
  append_section("data.");
  append_section("model.");
  keys.insert(keys.end(), {optimizer, learning_rate, final_learning_rate, schedule, warmup_steps,
                           beta1, beta2, epsilon, momentum, weight_decay, decay_all, clip_norm});
  keys.insert(keys.end(), {steps, batch_size, micro_batches, eval_every, eval_batch_size,
                           checkpoint_every, log_every, threads, precision, check_finite});
  append_section("train.");
  keys.insert(keys.end(), {expected_metric, expected_value, expected_data, expected_source});
  return keys;
}

const std::string& required_path(const Config& config, const std::string& missing,
                                 const std::string& wanted) {
  const std::string &path = config[data_path], &source = config[data_source];
  const std::string advice =
      fmt::format("name {}{}{}", wanted, source.empty() ? "" : ", such as ", source);
  std::error_code ignored;
  config.expect(!path.empty(), data_path, "there is {}; {}", missing, advice);
  config.expect(std::filesystem::exists(path, ignored), data_path, "no such file or folder; {}",
                advice);
  return path;
}

void expect_no_path(const Config& config) {
  config.expect(config[data_path].empty(), data_path,
                "this config's data is built in; leave it out");
}

}  // namespace tapestry::key
