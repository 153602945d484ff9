#include "train/trainer/compared_data.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/session.hpp"
#include "train/trainer/open_run.hpp"

namespace tapestry {
namespace {

// The seed divides names under data.rules = 1.
bool is_of_data(const std::string& override) {
  return override.starts_with("data.") || override.starts_with("seed=");
}

// Returns the name of a split of the task; "" for other data.
std::string name_of_split(Task& task, const Dataset& data) {
  if (&data == &task.validation_data()) return "validation";  // may be the only one
  if (&data == task.test_data()) return "test";
  return &data == &task.training_data() ? "train" : "";
}

const char* outcome_name(ComparedData::Outcome outcome) {
  using enum ComparedData::Outcome;
  switch (outcome) {
    case same:
      return "same";
    case changed:
      return "changed";
    case other:
      return "other";
    case not_recorded:
      return "not recorded";
    case built_in:
      return "built in";
  }
  return "";
}

std::uint64_t hash_of_inputs(const Dataset& data, std::int64_t example) {
  const Batch one = data.batch(std::array{example});
  Checksum sum;
  sum.add(one.inputs);
  if (const auto* source = one.find<SourceTokens>()) sum.add(source->tokens);
  return sum.value();
}

// Returns the run's own task with its data; null if these are gone, or are not those of the
// training. Reads no split but the training split if the run recorded its checksum.
std::unique_ptr<Task> own_task(const std::string& run) try {
  const Checkpoint head = load_trained_metadata(run);
  const Config config = config_of(head);
  if (config[key::data_path].empty()) return nullptr;
  std::unique_ptr<Task> task = make_task(head, config);
  const std::string recorded = value_in(head.state.splits, "data_train");
  const bool is_there = recorded.empty() ? !head.state.data.empty() &&
                                               initial_state(*task, config).data == head.state.data
                                         : examples_checksum(task->training_data()) == recorded;
  return is_there ? std::move(task) : nullptr;
} catch (const InputError&) {
  return nullptr;
}

void count_trained_on(const std::string& run, const Dataset& evaluated, ComparedData& compared) {
  compared.counts_trained_on = true;
  compared.examples = evaluated.size();
  if (!evaluated.has_single_examples()) {
    compared.unknown = "they are not single examples";
    return;
  }
  const std::unique_ptr<Task> own = own_task(run);
  if (!own) {
    compared.unknown = "the data of the training are not at their path, or their checksum differs";
    return;
  }
  const Dataset& training = own->training_data();
  std::unordered_set<std::uint64_t> known;
  for (std::int64_t i = 0; i < training.size(); ++i) known.insert(hash_of_inputs(training, i));
  compared.trained_on = 0;
  for (std::int64_t i = 0; i < evaluated.size(); ++i)
    *compared.trained_on += known.contains(hash_of_inputs(evaluated, i));
}

}  // namespace

std::string ComparedData::text() const {
  std::string text;
  for (const Split& split : splits)
    if (split.outcome == Outcome::changed)
      text += fmt::format(
          "{}: these are not the {}examples of the training: their checksum is {}, recorded is "
          "{}{}; restore the data of the training\n",
          split.name, split.name == "train" ? "" : split.name + " ",
          split.found.empty() ? "none" : split.found, printable(split.recorded),
          split.name == "train" ? "" : "; the model may have been trained on some of them");
  if (counts_trained_on)
    text += trained_on
                ? fmt::format("{} of these {} examples were trained on\n", *trained_on, examples)
                : fmt::format("unknown how many of these {} examples were trained on: {}\n",
                              examples, unknown);
  return text;
}

JsonValue ComparedData::json() const {
  JsonValue object = JsonValue::object();
  for (const Split& split : splits) object["data"][split.name] = outcome_name(split.outcome);
  if (counts_trained_on) object["trained_on"] = trained_on ? JsonValue(*trained_on) : JsonValue();
  return object;
}

bool chooses_data(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(overrides, is_of_data);
}

ComparedData compare_data(const TrainedModel& trained, const std::vector<const Dataset*>& read,
                          const std::vector<std::string>& overrides) {
  using enum ComparedData::Outcome;
  const bool has_files = !trained.config[key::data_path].empty();
  ComparedData compared;
  for (const Dataset* data : read) {
    if (!data) continue;
    ComparedData::Split split{.name = name_of_split(*trained.task, *data)};
    if (split.name.empty()) continue;
    split.recorded = value_in(trained.state.splits, "data_" + split.name);
    if (has_files && !split.recorded.empty()) split.found = examples_checksum(*data);
    split.outcome = split.recorded.empty()          ? has_files ? not_recorded : built_in
                    : split.found == split.recorded ? same
                    : chooses_data(overrides)       ? other
                                                    : changed;
    compared.splits.push_back(std::move(split));
  }
  return compared;
}

ComparedData compare_shown(const TrainedModel& trained, const TypedOptions& typed,
                           const std::vector<std::string>& overrides) {
  const bool is_chosen = std::ranges::any_of(typed, [](const auto& option) {
    return option.first == "prompt" || option.first == "image";
  });
  if (is_chosen || chooses_data(overrides)) return {};
  return compare_data(trained, {trained.task->shown_data()});
}

ComparedData compare_evaluated(const std::string& run, const TrainedModel& trained,
                               const Dataset& evaluated,
                               const std::vector<std::string>& overrides) {
  ComparedData compared = compare_data(trained, {&evaluated}, overrides);
  const bool is_split = !compared.splits.empty();
  const bool is_same = is_split && compared.splits.front().outcome == ComparedData::Outcome::same;
  if (!is_same && (!is_split || chooses_data(overrides)))
    count_trained_on(run, evaluated, compared);
  return compared;
}

}  // namespace tapestry
