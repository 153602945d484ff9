#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/session.hpp"

// Compares groups of runs that differ only in their seed: whether their metrics differ by more than
// seeds do, and which settings differ.
namespace tapestry {

struct ComparedRun {
  std::string folder{}, task{};
  std::int64_t parameters = 0, seed = 0;
  // The last one: step, loss, elapsed_s and the task's metrics; those of the test as test_….
  JsonValue evaluation{};
  ConfigSettings settings{};  // that affect the result, without the seed
  std::string data{};         // its checksum; empty if it is synthetic
  std::string tokens{};       // its tokenizer or vocabulary; empty if the task has none
  std::string version{};      // of its last session; empty if sessions.jsonl has none
  std::string backends{};
};

// Runs that differ only in their seed.
struct RunGroup {
  std::string name{};  // the folder of the seeds, or that of the first run
  std::vector<ComparedRun> runs{};
  bool is_folder = false;
  std::vector<std::string> left_out{};  // seeds that have not been evaluated yet

  std::vector<std::int64_t> seeds() const;
  std::string setting(const std::string& name) const;  // that they share; empty if it is unused
  std::vector<double> values(const std::string& figure) const;  // of the runs that measured it
};

// Returns the groups of runs. A folder of seeds is a group; other runs are a group if their configs
// differ only in the seed and in settings that do not affect the result. Throws InputError for a
// folder that is no run, was not evaluated or is damaged, and if the seeds of a folder differ in
// more than the seed.
std::vector<RunGroup> read_groups(const std::vector<std::string>& folders);

// Returns the names of the metrics that any of the runs has, the loss first, then in order.
std::vector<std::string> measured_figures(const std::vector<RunGroup>& groups);

// Returns why a metric of two groups cannot be compared: their tasks, validation or test data,
// tokens, or settings on which it depends differ. Empty if it can, as far as is known.
std::string why_not_comparable(const RunGroup& first, const RunGroup& other,
                               const std::string& figure);

// Returns why the result of a training under `settings` cannot be compared with [expected] of its
// config: a key differs from the config that [expected] was measured with, "train.steps = 300, sort
// has 1500". Empty if none does. That config is a shipped one with the same [expected], or else
// `written`: the config as its file has it, without --set.
std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written);

// How a metric of one group differs from that of the first. Groups with the same seeds and data are
// compared by a paired t-test, others by Welch's test.
struct FigureDifference {
  enum class Outcome {
    differs,
    no_significant_difference,
    same,
    no_spread,
    one_run,
    not_in_all,
    not_comparable
  };
  double value = 0;                // the mean minus that of the first group
  std::optional<double> margin{};  // of the 95 % confidence interval; none without a spread
  double degrees = 0;              // of freedom
  bool is_paired = false;
  Outcome outcome = Outcome::one_run;
  std::string reason{};  // why it is not comparable: then `value` has no meaning
};
const char* outcome_name(FigureDifference::Outcome outcome);  // "no significant difference"

// Returns nothing if one of them does not have the metric, or their tasks differ.
std::optional<FigureDifference> difference_of(const RunGroup& first, const RunGroup& other,
                                              const std::string& figure);

// Returns the number of decimals that shows two significant digits of a spread.
int decimals_of(double spread);
std::string interval_text(const Confidence& confidence, int decimals);  // "0.12 to 0.34"

// Returns a table whose first row is its head: how each metric of the groups differs from that of
// the first group. Names are printable.
std::vector<std::vector<std::string>> difference_table(const std::vector<RunGroup>& groups);

// A key of the config, or steps, data, version or engines, with its value by group, empty if it is
// unused. Keys that not all tasks have are left out.
struct SettingDifference {
  std::string name{};
  std::vector<std::string> values{};
};
std::vector<SettingDifference> settings_that_differ(const std::vector<RunGroup>& groups);

}  // namespace tapestry
