#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"

// Decides which results can be compared. Metrics of two groups: those of the same task and data,
// and of the same tokens and settings if the metric depends on them. The result of a run and
// [expected] of its config: those of the same config.
namespace tapestry {

namespace {

using Names = std::set<std::string>;

// Returns the keys of [data] that change the training data or the tokens, but not the validation
// text.
const Names& keys_of_training() {
  static const Names keys = {
      "data.path",        "data.tokenizer", "data.vocabulary", "data.template",
      "data.end_of_text", "data.packing",   "data.examples",   "data.training_images",
      "data.class_names", "data.train",     "data.flip",       "data.shift"};
  return keys;
}

// Returns the keys of how data are read. Other values may give the same examples.
const Names& keys_of_rules() {
  static const Names keys = {key::data_rules.name, "data.begin_of_text"};
  return keys;
}

// Returns the keys that change the validation split, but not the test split.
Names keys_of_validation(const std::string& task) {
  Names keys = {"data.training_nodes", "data.validation_nodes", "data.validation"};
  // The test split of a forecast is what the training and validation splits leave.
  if (task != "\"forecast\"") keys.insert("data.validation_fraction");
  return keys;
}

// Returns the keys of [data] that differ between two runs.
std::vector<std::string> differing_data_keys(const ComparedRun& one, const ComparedRun& other) {
  std::vector<std::string> names = names_that_differ({&one.settings, &other.settings});
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("data."); });
  return names;
}

bool have_same_tokens(const RunGroup& first, const RunGroup& other) {
  for (const ComparedRun& one : first.runs)
    for (const ComparedRun& another : other.runs)
      if (one.tokens != another.tokens) return false;
  return true;
}

// Returns the checksums of the evaluated splits of two runs; those of all data if a run did not
// record its split's.
std::pair<std::string, std::string> checksums_of(const ComparedRun& one, const ComparedRun& other,
                                                 bool is_test) {
  const char* name = is_test ? "data_test" : "data_validation";
  const std::string own = value_in(one.splits, name), others = value_in(other.splits, name);
  return own.empty() || others.empty() ? std::pair(one.data, other.data) : std::pair(own, others);
}

// Returns the keys of [data] due to which the evaluated data differ. Other rules are not among them
// if the examples are the same.
std::vector<std::string> other_data_keys(const RunGroup& first, const RunGroup& other,
                                         bool is_test) {
  const Names validation = keys_of_validation(first.setting(key::task.name));
  const ComparedRun &one = first.runs.front(), &another = other.runs.front();
  const auto [own, others] = checksums_of(one, another, is_test);
  std::vector<std::string> names = differing_data_keys(one, another);
  std::erase_if(names, [&, same = own == others](const std::string& name) {
    return keys_of_training().contains(name) || (is_test && validation.contains(name)) ||
           (same && keys_of_rules().contains(name));
  });
  return names;
}

// Returns whether the seed may change the split: nothing else differs between the runs of a group.
bool may_depend_on_seed(const RunGroup& group, bool is_test) {
  const ComparedRun& first = group.runs.front();
  return std::ranges::any_of(group.runs, [&](const ComparedRun& run) {
    const auto [own, others] = checksums_of(first, run, is_test);
    return own != others;
  });
}

// Returns whether two runs are known to have evaluated different files. Checksums are of the
// examples, which the seed, the tokens and keys of [data] change for the same files.
bool read_other_files(const RunGroup& first, const RunGroup& other, bool is_test) {
  const bool same_path = first.setting(key::data_path.name) == other.setting(key::data_path.name);
  const bool same_keys = have_same_tokens(first, other) &&
                         differing_data_keys(first.runs.front(), other.runs.front()).empty();
  const bool are_single = first.runs.size() == 1 && other.runs.size() == 1;
  const bool seed_counts =
      are_single || may_depend_on_seed(first, is_test) || may_depend_on_seed(other, is_test);
  for (const ComparedRun& one : first.runs)
    for (const ComparedRun& another : other.runs) {
      const auto [own, others] = checksums_of(one, another, is_test);
      if (own == others) continue;
      const bool is_known = !own.empty() && !others.empty();
      const bool is_explained = (seed_counts && one.seed != another.seed) || !same_keys;
      if (!same_path || (is_known && !is_explained)) return true;
    }
  return false;
}

std::string other_values(const RunGroup& first, const RunGroup& other,
                         const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const auto shown = [&](const RunGroup& group) {
      const std::string value = group.setting(name);
      return value.empty() ? "unused" : value;
    };
    texts.push_back(fmt::format("{} is {} and {}", name, shown(first), shown(other)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns whether a key changes a result by no more than a seed does. The data are compared with
// expected.data instead.
bool is_indifferent(const std::string& name) {
  static const std::set<std::string> names = {
      key::name.name,
      key::seed.name,
      key::data_path.name,
      key::data_source.name,
      key::data_rules.name,
      "data.begin_of_text",
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
  return names.contains(name) || name.starts_with("expected.") || name.starts_with("search.");
}

// Returns the first key that differs: "train.steps = 300, sort has 1500"; "" if none does.
std::string difference(const ConfigSettings& settings, const ConfigSettings& reference,
                       const std::string& whose) {
  for (const std::string& name : names_that_differ({&settings, &reference}))
    if (!is_indifferent(name)) {
      const std::string own = value_in(settings, name), other = value_in(reference, name);
      return fmt::format("{} = {}, {} has {}", name, own.empty() ? "unused" : own, whose,
                         other.empty() ? "none" : other);
    }
  return "";
}

// Returns why the data differ from those of expected.data; empty if they do not.
std::string other_data(const ConfigSettings& settings) {
  const auto text = [&](const KeyInfo& key) {
    const std::string value = value_in(settings, key.name);
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
    if (value_in(a, key->name) != value_in(b, key->name)) return false;
  return true;
}

}  // namespace

std::string why_not_comparable(const RunGroup& first, const RunGroup& other,
                               const std::string& figure) {
  if (first.setting(key::task.name) != other.setting(key::task.name)) return "the tasks differ";
  const bool is_test = figure.starts_with("test_");
  if (read_other_files(first, other, is_test))
    return fmt::format("the {} data differ", is_test ? "test" : "validation");
  if (const auto keys = other_data_keys(first, other, is_test); !keys.empty())
    return other_values(first, other, keys);
  const MetricInfo known = metric_info(first.runs.front().task, figure);
  if (known.is_per_token && !have_same_tokens(first, other))
    return "the metric is per token, and the tokenizers differ";
  std::vector<std::string> keys;
  for (const std::string& name : known.settings)
    if (first.setting(name) != other.setting(name)) keys.push_back(name);
  return keys.empty() ? "" : other_values(first, other, keys);
}

std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written) {
  if (const std::string why = other_data(settings); !why.empty()) return why;
  std::string reason;
  for (const auto& [name, text] : shipped_configs()) {
    if (text.find(value_in(settings, key::expected_source.name)) == text.npos) continue;
    const ConfigSettings shipped = parse_config(text, name, {}).settings();
    if (!expect_the_same(settings, shipped)) continue;
    const std::string why = difference(settings, shipped, name);
    if (why.empty()) return "";
    const bool is_namesake = value_in(settings, key::name.name) == "\"" + name + "\"";
    if (reason.empty() || is_namesake) reason = why;
  }
  return reason.empty() ? difference(settings, written, "the config") : reason;
}

}  // namespace tapestry
