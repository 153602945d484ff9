#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/session.hpp"

// Runs side by side, those that differ in their seed alone as one: whether what they came to
// differs by more than seeds do, and what differs in how they were made.
namespace tapestry {

struct ComparedRun {
  std::string folder{}, task{};
  std::int64_t parameters = 0, seed = 0;
  // The last: step, loss, elapsed_s and the task's own figures; tests as test_….
  JsonValue evaluation{};
  ConfigSettings settings{};  // that count, but the seed
  std::string data{};         // its checksum; empty where it was drawn
  std::string tokens{};       // its tokenizer or vocabulary; empty where the task has none
  std::string version{};      // of its last session; empty where sessions.jsonl has none
  std::string backends{};
};

// Runs that differ in their seed alone, each of another.
struct RunGroup {
  std::string name{};  // the folder of the seeds, or that of the first run
  std::vector<ComparedRun> runs{};
  bool is_folder = false;
  std::vector<std::string> left_out{};  // seeds that have not been evaluated yet

  std::vector<std::int64_t> seeds() const;
  std::string setting(const std::string& name) const;  // that they share; empty where it is unused
  std::vector<double> values(const std::string& figure) const;  // of the runs that have it
};

// A folder of seeds is a group. Runs that are named one by one are one where their configs are
// equal but for the seed and for what changes nothing; two of the same seed are two groups.
// InputError where a folder is no run, has not been evaluated or is damaged, and where the seeds of
// a folder differ in more.
std::vector<RunGroup> read_groups(const std::vector<std::string>& folders);

// What any of the runs measured in numbers, the loss first, then in the order of the alphabet.
std::vector<std::string> measured_figures(const std::vector<RunGroup>& groups);

// Returns why a figure of the one group says nothing about that of the other: other tasks, other
// validation or test data, other tokens, or other settings on which it depends. Empty where the two
// may be compared, as far as is known.
std::string why_not_comparable(const RunGroup& first, const RunGroup& other,
                               const std::string& figure);

// Returns why the result that a config's [expected] names is not to be compared with what a
// training under `settings` came to: data, model, tokenizer, steps or another key differ from those
// of the config that it was measured with, "train.steps = 300, sort has 1500". Empty where they do
// not, as in a config of one's own. That config is a shipped one with the same [expected], or else
// `written`: the config as its file has it, without --set.
std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written);

// How a figure of one group differs from that of the first. Groups of the same seeds and data are
// compared by pairs, others by Welch's test.
struct FigureDifference {
  enum class Outcome {
    differs,
    cannot_be_told_apart,
    same,
    no_spread,
    one_run,
    not_in_all,
    not_comparable
  };
  double value = 0;                // of the means, the first group's taken away
  std::optional<double> margin{};  // of the interval of 95 %; none where there is no spread
  double degrees = 0;              // of freedom
  bool is_paired = false;
  Outcome outcome = Outcome::one_run;
  std::string reason{};  // why it is not comparable; its value then means nothing
};
const char* outcome_name(FigureDifference::Outcome outcome);  // "cannot be told apart"

// Nothing where one of them has no such figure at all, or is of another task.
std::optional<FigureDifference> difference_of(const RunGroup& first, const RunGroup& other,
                                              const std::string& figure);

// A key of the config, or the steps, data, version or engines, and its value by group; empty where
// it does not count. Of groups of several tasks, keys that not all of them have are left out.
struct SettingDifference {
  std::string name{};
  std::vector<std::string> values{};
};
std::vector<SettingDifference> settings_that_differ(const std::vector<RunGroup>& groups);

}  // namespace tapestry
