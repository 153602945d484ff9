#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/run/new_folder.hpp"
#include "train/task_spec.hpp"
#include "train/tools/init/init.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using ChosenSettings = std::vector<ChosenSetting>;

// A config of fewer than few_steps steps gets a warning. Any config may have harmless_steps steps,
// even if these are more epochs than Recognized::most_epochs.
constexpr std::int64_t few_steps = 100, harmless_steps = 300;

std::string config_line(const std::string& setting, const std::string& comment) {
  return comment.empty() ? setting + "\n"
                         : fmt::format("{:<29} # {}\n", setting, printable(comment));
}

void set_key(ChosenSettings& settings, ChosenSetting setting) {
  std::erase_if(settings, [&](const ChosenSetting& other) { return other.key == setting.key; });
  settings.push_back(std::move(setting));
}

// Returns the largest number of at most two significant digits that is not above `steps`.
std::int64_t rounded_down(std::int64_t steps) {
  std::int64_t unit = 1;
  while (steps / unit >= 100) unit *= 10;
  return steps / unit * unit;
}

RunLength run_length_with(std::int64_t steps, std::int64_t evaluations) {
  const std::int64_t every = (steps + evaluations - 1) / evaluations;
  const std::int64_t times = (steps + every - 1) / every;
  return {.steps = steps, .evaluations = times, .checkpoints = 2 * times};
}

// Returns the most steps that fit into `seconds`, at most `most`, rounded down to two digits; 0 if
// none fits. Evaluates ten times, or less often if this takes more than a fifth of the time.
RunLength longest_run(const Throughput& throughput, double seconds, std::int64_t most) {
  for (std::int64_t evaluations = 10;; evaluations /= 2) {
    const double first = seconds_of({.steps = 1}, throughput);
    const double all = seconds_of(run_length_with(evaluations, evaluations), throughput) -
                       seconds_of({.steps = evaluations}, throughput);
    if (evaluations > 1 && all > 0.2 * seconds) continue;
    const double more = (seconds - first - all) / throughput.step_s;
    if (more < 0) return {};
    const double steps = std::min(1 + std::floor(more), static_cast<double>(most));
    return run_length_with(rounded_down(static_cast<std::int64_t>(steps)), evaluations);
  }
}

// Adds the change with which the training fits into the memory, and a note. Throws InputError if
// there is no such change.
void make_it_fit(ChosenSettings& settings, NewConfig& made, const std::string& path) {
  expect_input(made.plan.smallest.has_value(),
               "{}: a training on these data needs {} of memory, but the machine has {}; give less "
               "data",
               path, bytes_text(made.plan.needs()), bytes_text(made.plan.machine));
  for (const std::string& change : made.plan.smallest->overrides) {
    const TomlSetting setting = parse_override(change, false);
    set_key(settings, {setting.name, *setting.value, "fits into the memory of the machine"});
  }
  made.problems.push_back("the training fits into the memory only as follows: " +
                          made.plan.smallest->cost);
}

// Sets the keys that depend on the length of the run.
void set_length(ChosenSettings& settings, const NewConfig& made, const Config& config,
                bool is_capped) {
  const std::int64_t every =
      (made.length.steps + made.length.evaluations - 1) / made.length.evaluations;
  set_key(settings, {key::steps.name, made.length.steps,
                     fmt::format("{} at {} per step; {:.3g} epochs{}", duration_text(made.seconds),
                                 duration_text(made.plan.throughput->step_s), made.epochs,
                                 is_capped ? ", the most that init chooses" : "")});
  set_key(settings, {key::eval_every.name, every, "steps between evaluations"});
  set_key(settings, {key::checkpoint_every.name, every, "steps between checkpoints"});
  if (config[key::warmup_steps] > made.length.steps / 10)
    set_key(settings, {key::warmup_steps.name, made.length.steps / 10, "a tenth of the steps"});
}

// A config whose training was measured, and what it is made of.
class ConfigMaker {
 public:
  ConfigMaker(const FoundData& found, const NewConfigOptions& options)
      : found_(found), options_(options) {
    settings_ = {{key::data_path.name, fs::absolute(found.path).string(), "your data"},
                 {key::data_rules.name, key::data_rules.fallback, "how data are read and split"}};
    settings_.insert(settings_.end(), found.data.settings.begin(), found.data.settings.end());
    if (const Config config = config_with({});
        config.has(key::data_source.name) && !config[key::data_source].empty())
      set_key(settings_, {key::data_source.name, std::string(), "not the data of the base"});
    use_machine_as(config_with({}));
  }

  // Chooses the steps that fit the time, and a smaller training if they are too few.
  NewConfig make() {
    choose_kind();
    measure();
    const std::int64_t first = made_.length.steps;
    ChosenSettings chosen;
    for (auto next = found_.data.smaller.begin();
         next != found_.data.smaller.end() && has_few_steps(); ++next) {
      for (const ChosenSetting& setting : *next) {
        if (!config_with({}).has(setting.key)) continue;  // of another kind of model
        set_key(chosen, setting);
        set_key(settings_, setting);
      }
      measure();
    }
    std::vector<std::string> changes;
    for (const auto& [key, value, comment] : chosen)
      changes.push_back(key + " = " + to_toml(value));
    if (!changes.empty())
      made_.problems.push_back(fmt::format("{} in {}, which is too few; with {}, {}",
                                           counted(first, "step fits", "steps fit"),
                                           duration_text(seconds()), fmt::join(changes, " and "),
                                           counted(made_.length.steps, "fits", "fit")));
    return finished();
  }

 private:
  double seconds() const { return 60 * options_.minutes; }
  bool has_few_steps() const { return made_.length.steps < few_steps && !is_capped(); }
  bool is_capped() const { return made_.length.steps == rounded_down(most_); }

  Config config_with(const std::vector<std::string>& changes) const {
    return parse_config(config_text(found_, settings_), options_.out, changes);
  }

  bool is_given(const std::string& key) const {
    return std::ranges::any_of(found_.data.settings,
                               [&](const ChosenSetting& one) { return one.key == key; });
  }

  // Sets the kind of model that is best in short trainings, unless it is given, and a learning rate
  // that fits it.
  void choose_kind() {
    const Config base = config_with({});
    std::optional<ModelKind> kind = kind_of(base);
    const bool has_choice = kind && std::ranges::none_of(kind->settings, [&](const auto& one) {
                              return is_given(one.first);
                            });
    if (has_choice) {
      auto compared = compare_kinds(
          [&](const std::vector<std::string>& changes) { return config_with(changes); },
          found_.data);
      if (!compared) return;
      kind = std::move(compared->first);
      made_.evidence = std::move(compared->second);
    }
    if (!kind) return;
    std::vector<std::string> changes;
    for (const auto& [name, value] : kind->settings)
      changes.push_back(fmt::format("{}={}", name, to_toml(value)));
    const Config chosen = config_with(changes);
    std::erase_if(settings_, [&](const ChosenSetting& one) { return !chosen.has(one.key); });
    if (has_choice)
      for (const auto& [name, value] : kind->settings)
        set_key(settings_, {name, value, "the best of the kinds that were tried"});
    if (!is_given(key::learning_rate.name))
      set_key(settings_, {key::learning_rate.name, kind->learning_rate, "fits " + kind->name});
  }

  // Measures the training, changed so that it fits into the memory, and sets its length.
  void measure() {
    const ConfigWith with = [&](const std::vector<std::string>& changes) {
      return config_with(changes);
    };
    const PlanOptions measuring{.seconds = std::clamp(seconds() / 300, 0.2, 5.0),
                                .machine = options_.machine};
    made_.plan = plan_training(with, measuring);
    // The changed training is measured, which can take more memory than the plan computed.
    constexpr int most_changes = 8;
    for (int changes = 0; !made_.plan.fits(); ++changes) {
      expect_input(changes < most_changes,
                   "{}: no training that was tried fits into the memory; give less data",
                   found_.path);
      if (changes > 0) made_.problems.pop_back();  // the change that was not enough
      make_it_fit(settings_, made_, found_.path);
      made_.plan = plan_training(with, measuring);
    }
    expect_input(made_.plan.throughput.has_value(),
                 "{}: the speed of a training cannot be measured: {}; correct this error",
                 found_.path, made_.plan.unmeasured);
    steps_per_epoch_ =
        std::max(1.0, found_.data.examples / static_cast<double>(config_with({})[key::batch_size]));
    most_ = std::max(harmless_steps,
                     static_cast<std::int64_t>(found_.data.most_epochs * steps_per_epoch_));
    made_.length = longest_run(*made_.plan.throughput, seconds(), most_);
  }

  NewConfig finished() {
    made_.seconds = seconds_of(made_.length, *made_.plan.throughput);
    made_.epochs = static_cast<double>(made_.length.steps) / steps_per_epoch_;
    expect_input(made_.length.steps > 0,
                 "--minutes {}: reading the data, one step and one evaluation take {}; give more "
                 "minutes",
                 options_.minutes,
                 duration_text(seconds_of({.steps = 1, .evaluations = 1, .checkpoints = 2},
                                          *made_.plan.throughput)));
    if (has_few_steps())
      made_.problems.push_back(
          fmt::format("only {} steps fit the time; give more with --minutes", made_.length.steps));
    set_length(settings_, made_, config_with({}), is_capped());
    made_.toml = config_text(found_, settings_);
    parse_config(made_.toml, options_.out, {});  // throws if the settings do not agree
    return std::move(made_);
  }

  const FoundData& found_;
  const NewConfigOptions& options_;
  ChosenSettings settings_;
  NewConfig made_{};
  double steps_per_epoch_ = 1;
  std::int64_t most_ = 0;  // number of steps
};

std::string show(const Evidence& evidence) {
  std::string text;
  for (const auto& [name, value, examples] : evidence.tried)
    text += fmt::format(
        "  tried {}: validation {} {:.3g}{}\n", name, evidence.metric, value,
        examples > 0 ? fmt::format(" after {} examples{}", examples,
                                   evidence.is_cut ? ", as many as the time limit allowed" : "")
                     : "");
  if (!evidence.chosen.empty()) text += fmt::format("  chosen: {}\n", evidence.chosen);
  return text;
}

JsonValue json_of(const Evidence& evidence) {
  JsonValue all = JsonValue::array();
  for (const auto& [name, value, examples] : evidence.tried)
    all.push_back({{"name", name}, {evidence.metric, value}, {"examples", examples}});
  return all;
}

}  // namespace

std::string config_text(const FoundData& found, const ChosenSettings& settings) {
  std::string text =
      config_line(fmt::format("# Written by `tapestry init` for {}.", printable(found.path)), "") +
      config_line("base = " + to_toml(Value(found.data.base)),
                  "all other keys; `tapestry config` prints them");
  for (const std::string section : {"data", "model", "optim", "train"}) {
    std::string lines;
    for (const auto& [key, value, comment] : settings)
      if (key.starts_with(section + "."))
        lines += config_line(key.substr(section.size() + 1) + " = " + to_toml(value), comment);
    if (!lines.empty()) text += fmt::format("\n[{}]\n{}", section, lines);
  }
  return text;
}

void expect_new_config(const std::string& out) {
  const fs::path name = fs::path(out).filename();
  expect_input(
      !name.empty() && !name.string().starts_with("."),
      "--out {}: expected the name of a file, not of a folder or a hidden file; give another name",
      out);
  expect_input(name.extension() == ".toml",
               "--out {}: expected a name that ends in .toml; add the ending", out);
  expect_input(!is_there(out), "--out {}: already exists; give the name of a new file", out);
  expect_new_file(out);
}

NewConfig make_config(const FoundData& found, const NewConfigOptions& options) {
  expect_input(
      !fs::exists(fs::path(options.out).parent_path() / found.data.base),
      "--out {}: a config in this folder cannot be based on the shipped config {}, because "
      "a file there has this name; give another folder",
      options.out, found.data.base);
  return ConfigMaker(found, options).make();
}

std::string show(const NewConfig& made) {
  std::string text = show(made.evidence) +
                     fmt::format(
                         "  {} parameters, {} of memory of the {} of the machine\n"
                         "  {} steps ({:.3g} epochs) and {} evaluations: about {}\n",
                         count_text(made.plan.memory.parameters), bytes_text(made.plan.needs()),
                         bytes_text(made.plan.machine), made.length.steps, made.epochs,
                         made.length.evaluations, duration_text(made.seconds));
  for (const std::string& problem : made.problems) text += fmt::format("  note: {}\n", problem);
  return text;
}

JsonValue json_of(const FoundData& found, const NewConfig& made, const std::string& out) {
  JsonValue facts = JsonValue::object();
  for (const auto& [name, value] : found.data.facts.items()) {
    std::string member = name;
    std::ranges::replace(member, ' ', '_');
    facts[member] = value;
  }
  std::vector<std::string> problems = found.data.problems;
  problems.insert(problems.end(), made.problems.begin(), made.problems.end());
  return {{"data", found.path},
          {"kind", found.data.name},
          {"task", found.task},
          {"facts", facts},
          {"problems", problems},
          {"also_possible", found.others},
          {"config", out},
          {"base", found.data.base},
          {"parameters", made.plan.memory.parameters},
          {"bytes", made.plan.needs()},
          {"steps", made.length.steps},
          {"epochs", made.epochs},
          {"seconds", made.seconds},
          {"tried", json_of(made.evidence)},
          {"chosen", made.evidence.chosen}};
}

}  // namespace tapestry
