#include "train/tools/search/candidates.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "optim/optimizer.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/search/tried_before.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/open_run.hpp"

namespace tapestry {
namespace {

using ConfigWithOverrides = std::function<Config(const std::vector<std::string>&)>;

constexpr std::int64_t most_candidates = 1000;
constexpr std::int64_t default_trials = 16;
constexpr std::size_t most_settings_bytes = 8192;  // of a candidate, in a line of the ledger

// A setting that is varied: listed values, or a range of numbers.
struct Axis {
  std::string key{};
  std::vector<std::string> values{};
  double low = 0, high = 0;  // the range, if there are no values
  bool is_log = false, is_integer = false;
};

[[noreturn]] void fail_axis(const std::string& text, const std::string& message) {
  throw InputError(fmt::format("--vary {}: {}", printable_beginning(text), message));
}

// Returns the parts of a text between separators that are outside of brackets and quotes:
// "[1,2],[3]" -> {"[1,2]", "[3]"}.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted) depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0 && !is_quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// Returns the value of a range as text: an integer, or a number with 4 significant digits unless
// these are outside of the range.
std::string value_text(const Axis& axis, double value) {
  if (axis.is_integer) return fmt::format("{:.0f}", std::round(value));
  const std::string text = fmt::format("{:.4g}", value);
  const double rounded = number_of(text), inside = std::clamp(rounded, axis.low, axis.high);
  return inside == rounded ? text : fmt::format("{}", inside);
}

// Returns the value at a place from 0 (low) to 1 (high) of a range.
std::string value_at(const Axis& axis, double place) {
  if (!axis.is_log) return value_text(axis, axis.low + place * (axis.high - axis.low));
  const double low = std::log(axis.low), high = std::log(axis.high);
  return value_text(axis, std::exp(low + place * (high - low)));
}

// Returns the axis of "KEY=log:LOW:HIGH" or "KEY=linear:LOW:HIGH", or of evenly spaced values if
// ":COUNT" follows.
Axis range_axis(const std::string& text, Axis axis, const std::string& written) {
  const std::vector<std::string_view> parts = split(written, ':');
  axis.is_log = parts[0] == "log";
  axis.low = number_of(parts.size() > 1 ? parts[1] : "");
  axis.high = number_of(parts.size() > 2 ? parts[2] : "");
  const double count = parts.size() > 3 ? number_of(parts[3]) : 0;
  const bool is_count =
      parts.size() < 4 || (count >= 2 && count <= most_candidates && count == std::floor(count));
  if (!std::isfinite(axis.high - axis.low) || !is_count || parts.size() > 4)
    fail_axis(text, fmt::format("expected KEY={0}:LOW:HIGH, or KEY={0}:LOW:HIGH:COUNT with a count "
                                "from 2 to {1}",
                                parts[0], most_candidates));
  if (axis.low >= axis.high || (axis.is_log && axis.low <= 0))
    fail_axis(text, fmt::format("the range is empty; expected LOW below HIGH{}",
                                axis.is_log ? ", both above 0" : ""));
  if (axis.is_integer && (axis.low != std::round(axis.low) || axis.high != std::round(axis.high)))
    fail_axis(text, "the key holds integers; expected integers for LOW and HIGH");
  for (int i = 0; i < static_cast<int>(count); ++i)
    axis.values.push_back(value_at(axis, i / (count - 1)));
  return axis;
}

Axis axis_of(const std::string& text, const Config& base) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail_axis(text, "expected KEY=A,B,C, KEY=log:LOW:HIGH or KEY=linear:LOW:HIGH");
  Axis axis{.key = text.substr(0, equals)};
  axis.is_integer =
      base.has(axis.key) && std::holds_alternative<std::int64_t>(base.value(axis.key));
  const std::string written = text.substr(equals + 1);
  static const std::set<std::string> given = {key::task.name, key::name.name, key::seed.name,
                                              key::steps.name, key::data_path.name};
  if (given.contains(axis.key) || axis.key.starts_with("search."))
    fail_axis(text,
              "all runs of a search have the same task, data, steps and seeds; vary another "
              "key");
  if (written.starts_with("log:") || written.starts_with("linear:"))
    return range_axis(text, std::move(axis), written);
  axis.values = split_values(written);
  for (const std::string& value : axis.values)
    if (value.empty()) fail_axis(text, "a value is empty; expected KEY=A,B,C, or \"\" for no text");
  return axis;
}

std::vector<Axis> axes_of(const Config& base) {
  std::vector<Axis> axes;
  for (const std::string& text : search_settings.of(base).vary) {
    axes.push_back(axis_of(text, base));
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
      if (axes[i].key == axes.back().key)
        fail_axis(text, fmt::format("{} is varied twice; give all of its values in one --vary",
                                    axes.back().key));
  }
  expect_input(!axes.empty(), "no setting to vary; give --vary KEY=A,B,C, or search.vary");
  return axes;
}

using Settings = std::vector<std::string>;

// Returns all combinations of the values; the last setting varies fastest.
std::vector<Settings> grid_of(const std::vector<Axis>& axes) {
  std::vector<Settings> all(1);
  for (const Axis& axis : axes) {
    expect_input(!axis.values.empty(),
                 "--vary {0}={1}:{2}:{3}: a grid needs values; give {0}={1}:{2}:{3}:COUNT, or "
                 "--method random",
                 axis.key, axis.is_log ? "log" : "linear", axis.low, axis.high);
    expect_input(std::ssize(all) * std::ssize(axis.values) <= most_candidates,
                 "--vary: the grid has more than {} candidates; give fewer values, or --method "
                 "random with --trials N",
                 most_candidates);
    std::vector<Settings> longer;
    for (const Settings& before : all)
      for (const std::string& value : axis.values) {
        longer.push_back(before);
        longer.back().push_back(axis.key + "=" + value);
      }
    all = std::move(longer);
  }
  return all;
}

// Returns random combinations; the n-th one depends on the seed and on n only.
std::vector<Settings> draws_of(const std::vector<Axis>& axes, std::int64_t seed,
                               std::int64_t trials) {
  std::vector<Settings> all;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    Random random(static_cast<std::uint64_t>(seed), Stream::sample,
                  static_cast<std::uint64_t>(trial));
    Settings settings;
    for (const Axis& axis : axes)
      settings.push_back(
          axis.key + "=" +
          (axis.values.empty()
               ? value_at(axis, random.uniform())
               : axis.values[static_cast<std::size_t>(random.below(std::ssize(axis.values)))]));
    all.push_back(std::move(settings));
  }
  return all;
}

std::int64_t trials_of(const Config& base) {
  const std::int64_t trials = search_settings.of(base).trials;
  return trials > 0 ? trials : default_trials;
}

std::vector<Settings> combinations(const Config& base) {
  const std::vector<Axis> axes = axes_of(base);
  const Given<SearchOptions> options = search_settings.of(base);
  const SearchMethod method = options.method;
  const bool has_range =
      std::ranges::any_of(axes, [](const Axis& axis) { return axis.values.empty(); });
  const bool is_grid = method == SearchMethod::grid ||
                       (method == SearchMethod::halving && options.trials == 0 && !has_range);
  options.expect(
      method != SearchMethod::grid || options.trials == 0, "trials",
      "a grid tries all combinations; leave this out, or set search.method = \"random\"");
  if (is_grid) return grid_of(axes);
  return draws_of(axes, base[key::seed], trials_of(base));
}

std::string shown(const Settings& settings) {
  return printable_beginning(fmt::format("{}", fmt::join(settings, " ")));
}

// Returns a task whose model has only shapes.
std::unique_ptr<Task> dry_task(const Config& config) {
  if (!config[key::from].empty()) return begin_task(config, Weights::dry_run);
  const InitialDryRun dry_run;  // begin_task() accepts missing texts in a dry run
  return make_task({.config = config});
}

// The task of a candidate, and the state in which its training begins.
struct CheckedTask {
  std::unique_ptr<Task> task{};
  TrainingState initial{};
};

// Returns the config of a candidate, and sets `checked` to its task. Settings of the optimizer
// leave the task as it is, so that the data are not read again. Throws InputError, which names
// --vary, if a training or the method refuses the config.
Config checked_config(const ConfigWithOverrides& config_with, const Settings& settings,
                      CheckedTask& checked) try {
  Config config = config_with(settings);
  check_training_keys(config);
  const Given<SearchOptions> options = search_settings.of(config);
  config.expect(
      options.method != SearchMethod::halving || config[key::schedule] != Decay::stable_linear,
      key::schedule,
      "successive halving resumes runs, and this schedule decays at the end of each run; "
      "use another schedule");
  options.expect(options.minutes == 0 || config[key::eval_every] > 0, "minutes",
                 "a run ends with an evaluation; set train.eval_every");
  if (!checked.task || !std::ranges::all_of(settings, [](const std::string& setting) {
        return setting.starts_with("optim.");
      })) {
    checked.task.reset();
    checked.task = dry_task(config);
    checked.initial = initial_state(*checked.task, config);
  }
  make_optimizer(config, checked.task->model().parameters());  // checks optim.groups
  return config;
} catch (const InputError& error) {
  const std::string message = error.what(), option = "--set";
  if (settings.empty()) throw;
  throw InputError(message.starts_with(option)
                       ? "--vary" + message.substr(option.size())
                       : fmt::format("--vary {}: {}", shown(settings), message));
}

// Returns a group of one run that has the config, without data and tokens, which must be the same.
RunGroup group_of(const Config& config) {
  ComparedRun run{.task = config[key::task], .settings = config.settings_that_count()};
  for (const char* name : {"data.tokenizer", "data.vocabulary"})
    run.tokens += value_in(run.settings, name) + " ";
  return {.name = "", .runs = {std::move(run)}};
}

}  // namespace

double number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? value : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t base_seed_of(const Config& base, std::int64_t test) {
  return base[key::seed] + 4 * search_settings.of(base).seeds * (test - 1);
}

TrainingState initial_state_of(const Config& config) {
  return initial_state(*dry_task(config), config);
}

std::vector<Candidate> make_candidates(const ConfigWithOverrides& config_with, bool is_new) {
  std::vector<Candidate> candidates;
  CheckedTask checked;
  const auto config_of = [&](const Settings& settings) {
    return is_new ? checked_config(config_with, settings, checked) : config_with(settings);
  };
  const auto add = [&](Settings settings, Config config) {
    candidates.push_back({.name = fmt::format("candidate-{:02}", candidates.size()),
                          .settings = std::move(settings),
                          .config = std::move(config)});
    if (!is_new) return;
    candidates.back().validation_examples = checked.task->validation_data().size();
    candidates.back().effective = effective_checksum(candidates.back().config, checked.initial);
  };
  const Config base = config_of({});
  add({}, base);
  candidates.front().name = "base";
  candidates.front().initial = checked.initial;
  if (search_settings.of(base).is_aa_test()) {
    for (std::int64_t test = 1; test <= trials_of(base); ++test) {
      const std::int64_t seed = base_seed_of(base, test) + 2 * search_settings.of(base).seeds;
      Config config = base;
      config.set(key::seed, seed);
      add({fmt::format("{}={}", key::seed.name, seed)}, std::move(config));
    }
    return candidates;
  }
  const RunGroup base_group = group_of(base);
  std::set<ConfigSettings> known = {base.settings()};
  for (Settings& settings : combinations(base)) {
    Config config = config_of(settings);
    if (!known.insert(config.settings()).second) continue;
    const std::string reason = why_not_comparable(base_group, group_of(config), "loss");
    expect_input(reason.empty(),
                 "--vary {}: losses cannot be compared with those of the base: {}; vary another "
                 "key",
                 shown(settings), reason);
    const std::size_t bytes =
        JsonValue(settings).dump(-1, ' ', false, JsonValue::error_handler_t::replace).size();
    expect_input(bytes <= most_settings_bytes,
                 "--vary {}: the settings have {} bytes; expected at most {}", shown(settings),
                 bytes, most_settings_bytes);
    add(std::move(settings), std::move(config));
  }
  expect_input(candidates.size() > 1,
               "--vary: every candidate has the settings of the base; give other values");
  return candidates;
}

std::vector<std::int64_t> rounds_of(std::int64_t candidates, std::int64_t steps) {
  std::vector<std::int64_t> rounds = {steps};
  for (; candidates >= halving_factor && rounds.front() >= halving_factor;
       candidates /= halving_factor)
    rounds.insert(rounds.begin(), rounds.front() / halving_factor);
  return rounds;
}

}  // namespace tapestry
