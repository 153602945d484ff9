#include "train/tools/report/expectation.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>

#include "train/config/keys.hpp"
#include "train/config/shipped_configs.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

std::string value_of(const ConfigSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

// Keys with which a result is the same, or no other than that of another seed. The data are known
// by expected.data.
bool is_indifferent(const std::string& name) {
  static const std::set<std::string> names = {
      key::name.name,
      key::seed.name,
      key::data_path.name,
      key::data_source.name,
      "data.class_names",
      key::eval_every.name,
      key::eval_batch_size.name,
      key::micro_batches.name,
      key::shard_optimizer.name,
      key::checkpoint_every.name,
      key::log_every.name,
      key::tensorboard.name,
      key::samples.name,
      key::threads.name,
      key::time_limit.name,
      key::check_finite.name,
      key::max_bad_steps.name,
  };
  return names.contains(name) || name.starts_with("expected.");
}

// "train.steps = 300, sort has 1500", of the first key that differs.
std::string difference(const ConfigSettings& settings, const ConfigSettings& reference,
                       const std::string& whose) {
  std::set<std::string> names;
  for (const ConfigSettings* one : {&settings, &reference})
    for (const auto& [name, value] : *one) names.insert(name);
  for (const std::string& name : names) {
    const std::string own = value_of(settings, name), other = value_of(reference, name);
    if (own != other && !is_indifferent(name))
      return fmt::format("{} = {}, {} has {}", name, own.empty() ? "unused" : own, whose,
                         other.empty() ? "none" : other);
  }
  return "";
}

// Why the data are not those of expected.data.
std::string other_data(const ConfigSettings& settings) {
  const auto text = [&](const KeyInfo& key) {
    const std::string value = value_of(settings, key.name);
    return value.size() < 2 ? "" : value.substr(1, value.size() - 2);  // without its quotes
  };
  const std::string wanted = text(key::expected_data), path = text(key::data_path);
  const std::string given =
      path.empty() ? "built-in" : std::filesystem::path(path).filename().string();
  return wanted.empty() || given == wanted
             ? ""
             : fmt::format("the data are {}, expected.data is {}", given, wanted);
}

bool expect_the_same(const ConfigSettings& a, const ConfigSettings& b) {
  for (const KeyInfo* key : std::initializer_list<const KeyInfo*>{
           &key::expected_metric, &key::expected_value, &key::expected_source, &key::task})
    if (value_of(a, key->name) != value_of(b, key->name)) return false;
  return true;
}

}  // namespace

std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written) {
  if (const std::string why = other_data(settings); !why.empty()) return why;
  std::string reason;
  for (const auto& [name, text] : shipped_configs()) {
    if (text.find(value_of(settings, key::expected_source.name)) == text.npos) continue;
    const ConfigSettings shipped = parse_config(text, name, {}).settings();
    if (!expect_the_same(settings, shipped)) continue;
    const std::string why = difference(settings, shipped, name);
    if (why.empty()) return "";
    const bool is_namesake = value_of(settings, key::name.name) == "\"" + name + "\"";
    if (reason.empty() || is_namesake) reason = why;
  }
  return reason.empty() ? difference(settings, written, "the config") : reason;
}

}  // namespace tapestry
