#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"

// Comparison of groups of runs that differ only in their seed: whether their metrics differ by more
// than the seeds explain, and which settings differ.
namespace tapestry {

struct ComparedRun {
  std::string folder{}, task{};
  std::int64_t parameters = 0, seed = 0;
  // The last evaluation: step, loss, elapsed_s and the task's metrics; metrics of the test split as
  // test_….
  JsonValue evaluation{};
  ConfigSettings settings{};  // settings that affect the result, without the seed
  std::string data{};         // checksum of the data; empty if they are synthetic
  Checksums splits{};         // checksums of the splits, as far as they were recorded
  std::string tokens{};       // tokenizer or vocabulary; empty if the task has none
  std::string version{};      // version of the last session; empty if it was not recorded
  std::string backends{};
  SplitBaselines baselines{};

  // Returns a sentence that compares the last evaluation, or that of the test split, with the
  // baselines; "" without any.
  std::string compared_with_baselines() const;
};

// Runs that differ only in their seed.
struct RunGroup {
  std::string name{};  // folder of the seeds, or of the first run
  std::vector<ComparedRun> runs{};
  bool is_folder = false;
  std::vector<std::string> left_out{};  // seeds without an evaluation

  std::vector<std::int64_t> seeds() const;
  std::string setting(const std::string& name) const;  // returns the common value; empty if unused
  // Returns the figure's values in the runs that measured it.
  std::vector<double> values(const std::string& figure) const;
};

// Returns the groups of runs. A folder of seeds is a group; other runs are a group if their configs
// differ only in the seed and in settings that do not affect the result. Throws InputError for a
// folder that is not a run, has no evaluation or is damaged, and if the runs in a folder of seeds
// differ in more than the seed.
std::vector<RunGroup> read_groups(const std::vector<std::string>& folders);

// Returns the names of all measured metrics, the loss first, then sorted by name.
std::vector<std::string> measured_figures(const std::vector<RunGroup>& groups);

// Returns why a metric of two groups cannot be compared: their tasks, validation or test data,
// tokens, or settings on which the metric depends differ. Empty if no such difference is known.
std::string why_not_comparable(const RunGroup& first, const RunGroup& other,
                               const std::string& figure);

// Returns why the result of a training with `settings` cannot be compared with [expected] of its
// config: the data are not those of expected.data, or a key differs from the config with which
// [expected] was measured, "train.steps = 300, sort has 1500". Empty if nothing differs. That
// config is a shipped one with the same [expected], or else `written`: the config as its file has
// it, without --set.
std::string why_not_expected(const ConfigSettings& settings, const ConfigSettings& written);

// The difference of a metric between a group and the first group. Groups with the same seeds and
// data are compared by a paired t-test, others by Welch's test.
struct FigureDifference {
  enum class Outcome {  // outcome_name() has their names in this order
    differs,
    no_significant_difference,
    same,
    no_spread,
    one_run,
    not_in_all,
    not_comparable
  };
  double value = 0;  // mean minus that of the first group
  // Half width of the 95 % confidence interval; none without a spread.
  std::optional<double> margin{};
  double degrees = 0;  // degrees of freedom
  bool is_paired = false;
  Outcome outcome = Outcome::one_run;
  std::string reason{};  // why the metric is not comparable; `value` is then meaningless

  // Returns the p-value of the test; 1 without a margin.
  double p() const { return p_value({value, margin.value_or(0), degrees}); }
};
// Returns "no significant difference", for example.
const char* outcome_name(FigureDifference::Outcome outcome);

// Returns the difference; nothing if one of the groups lacks the metric, or if their tasks differ.
std::optional<FigureDifference> difference_of(const RunGroup& first, const RunGroup& other,
                                              const std::string& figure);

// Returns the number of decimals, at most 12, with which a spread has two significant digits; 4 if
// the spread is not a positive number.
int decimals_of(double spread);
std::string interval_text(const Confidence& confidence, int decimals);  // returns "0.12 to 0.34"

// Returns a table, with a header row, of the differences of each metric between the groups and the
// first group. Names are printable.
std::vector<std::vector<std::string>> difference_table(const std::vector<RunGroup>& groups);

// A setting, or the seed, data, a split of the data, steps, version or backends ("engines"), with
// the value in each group; empty if the setting is unused. If the tasks differ, keys that not all
// of them have are omitted.
struct SettingDifference {
  std::string name{};
  std::vector<std::string> values{};
};
std::vector<SettingDifference> settings_that_differ(const std::vector<RunGroup>& groups);

}  // namespace tapestry
