#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "train/config/keys.hpp"
#include "train/task.hpp"
#include "train/tools/report/comparison.hpp"

// Which figures of two groups say the same thing: those of the same task, on the same validation or
// test data, and where a figure depends on them, in the same tokens and under the same settings.
namespace tapestry {
namespace {

using Names = std::set<std::string>;

// Keys of [data] that change what is trained on, or how texts become tokens, but not the text that
// is validated on.
const Names& keys_of_training() {
  static const Names keys = {"data.path",     "data.tokenizer",       "data.vocabulary",
                             "data.template", "data.end_of_text",     "data.packing",
                             "data.examples", "data.training_images", "data.class_names",
                             "data.train"};
  return keys;
}

// Keys that change what is validated on, but not the test split.
Names keys_of_validation(const std::string& task) {
  Names keys = {"data.training_nodes", "data.validation_nodes", "data.validation"};
  if (task != "\"forecast\"") keys.insert("data.validation_fraction");  // else the test is the rest
  return keys;
}

// The keys of [data] by which what was measured on differs.
std::vector<std::string> other_data_keys(const RunGroup& first, const RunGroup& other,
                                         bool is_test) {
  Names names;
  for (const RunGroup* group : {&first, &other})
    for (const auto& [name, value] : group->runs.front().settings)
      if (name.starts_with("data.")) names.insert(name);
  const Names validation = keys_of_validation(first.setting(key::task.name));
  std::vector<std::string> differing;
  for (const std::string& name : names)
    if (first.setting(name) != other.setting(name) && !keys_of_training().contains(name) &&
        !(is_test && validation.contains(name)))
      differing.push_back(name);
  return differing;
}

bool have_same_tokens(const RunGroup& first, const RunGroup& other) {
  for (const ComparedRun& one : first.runs)
    for (const ComparedRun& another : other.runs)
      if (one.tokens != another.tokens) return false;
  return true;
}

// Whether any two runs are known to have read other files. Checksums are of the examples: the same
// files give others where the seed, the tokens or a key of [data] cuts them otherwise.
bool read_other_files(const RunGroup& first, const RunGroup& other) {
  const bool same_path = first.setting(key::data_path.name) == other.setting(key::data_path.name);
  bool same_keys = have_same_tokens(first, other);
  for (const auto& [name, value] : first.runs.front().settings)
    if (name.starts_with("data.")) same_keys &= value == other.setting(name);
  for (const ComparedRun& one : first.runs)
    for (const ComparedRun& another : other.runs) {
      if (one.data == another.data) continue;
      const bool is_known = !one.data.empty() && !another.data.empty();
      const bool is_explained = one.seed != another.seed || !same_keys;
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

}  // namespace

std::string why_not_comparable(const RunGroup& first, const RunGroup& other,
                               const std::string& figure) {
  if (first.setting(key::task.name) != other.setting(key::task.name)) return "the tasks differ";
  const bool is_test = figure.starts_with("test_");
  if (read_other_files(first, other))
    return fmt::format("the {} data differ", is_test ? "test" : "validation");
  if (const auto keys = other_data_keys(first, other, is_test); !keys.empty())
    return other_values(first, other, keys);
  const MetricInfo known = metric_info(first.runs.front().task, figure);
  if (known.is_per_token && !have_same_tokens(first, other))
    return "it is per token, and the tokenizers differ";
  std::vector<std::string> keys;
  for (const std::string& name : known.settings)
    if (first.setting(name) != other.setting(name)) keys.push_back(name);
  return keys.empty() ? "" : other_values(first, other, keys);
}

}  // namespace tapestry
