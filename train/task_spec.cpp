#include "train/task_spec.hpp"

#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <ranges>
#include <set>

#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/fine_tuning.hpp"

namespace tapestry {
namespace {

// Makes a path absolute and removes trailing slashes, so that its last part is a name.
void make_path_absolute(Config& config, const Key<std::string>& key) {
  if (config[key].empty()) return;
  require_utf8(config[key], key.name);  // otherwise it cannot be written as TOML
  const std::filesystem::path path = std::filesystem::absolute(config[key]);
  config.set(key, (path.has_filename() ? path : path.parent_path()).string());
}

std::vector<TaskSpec (*)()>& registered_specs() {
  static std::vector<TaskSpec (*)()> specs;
  return specs;
}

// Returns what registers a task, for messages.
std::string registrant(const TaskSpec& spec) {
  return spec.file.empty() ? "Tapestry" : printable(spec.file);
}

// Returns whether a name has only lower-case letters, digits, '_' and `others`, and begins with a
// letter.
bool is_lower_name(std::string_view name, std::string_view others = "") {
  const auto is_letter = [](char c) { return 'a' <= c && c <= 'z'; };
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, [&](char c) {
    return is_letter(c) || ('0' <= c && c <= '9') || c == '_' || others.find(c) != others.npos;
  });
}

// Returns whether the name of a key is that of a section for tasks and a lower-case name.
bool is_key_of_task(const std::string& name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string section = name.substr(0, dot);
  return (section == "data" || section == "model" || section == "train") && dot < name.size() &&
         is_lower_name(name.substr(dot + 1));
}

// Checks what a TaskSpec declares. Messages begin with the task and the declaration.
class SpecCheck final {
 public:
  explicit SpecCheck(const TaskSpec& spec)
      : spec_(spec), common_(key::with_common_keys({})), keys_(key::with_common_keys(spec.keys)) {}

  void run() const {
    const auto is_in_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    };
    expect(!spec_.name.empty() && std::ranges::all_of(spec_.name, is_in_name), "TaskSpec::name",
           "expected letters, digits, '_' and '-'");
    expect(!spec_.help.empty(), "TaskSpec::help", "is empty; describe the data and the model");
    expect(spec_.make != nullptr, "TaskSpec::make", "is missing; set make_task_of<T>");
    check_keys();
    check_metrics();
    for (const std::vector<KeyInfo>* options :
         {&spec_.samples.options(), &spec_.predictor.options(), &spec_.chat.options(),
          &spec_.token_decoder.options(), &spec_.attention.options(), &spec_.latent_codes.options(),
          &spec_.panels.options(), &spec_.onnx.options()})
      check_options(*options);
  }

 private:
  void expect(bool holds, const std::string& declaration, const std::string& message) const {
    expect_input(holds, "task {} of {}: {}: {}", printable_beginning(spec_.name), registrant(spec_),
                 printable_beginning(declaration), message);
  }

  static const KeyInfo* find(const std::vector<KeyInfo>& keys, const std::string& name) {
    const auto found = std::ranges::find(keys, name, &KeyInfo::name);
    return found == keys.end() ? nullptr : &*found;
  }

  // Expects that each condition can hold: its key is one of `keys`, which can have the values.
  void check_conditions(const std::string& name, const KeyInfo& key,
                        const std::vector<KeyInfo>& keys) const {
    for (const Condition& condition : key.limits.used_if) {
      const KeyInfo* other = find(keys, condition.key);
      const auto fits = [&](const Value& value) {
        return value.index() == other->fallback.index() && range_error(*other, value).empty();
      };
      expect(other && std::ranges::all_of(condition.values, fits), name,
             fmt::format("is used with {} = {}, which cannot be set", condition.key,
                         one_of(condition.values)));
    }
  }

  void check_keys() const {
    std::set<std::string> names;
    for (const KeyInfo& key : spec_.keys) {
      const KeyInfo* other = find(common_, key.name);
      expect(other || is_key_of_task(key.name), key.name,
             "expected data., model. or train., and lower-case letters, digits and '_'");
      expect(names.insert(key.name).second, key.name, "two keys have this name; rename one");
      // Settings of components are declared by the key of every task: Bound(key::seed, …).
      expect(!other || other->help == key.help, key.name,
             "is a key of every task; give this one another name");
      const std::string wrong = declaration_error(key);
      expect(wrong.empty(), key.name, wrong);
      check_conditions(key.name, key, keys_);
    }
  }

  void check_metrics() const {
    std::set<std::string> names;
    for (const MetricInfo& metric : spec_.metrics) {
      const std::string name = fmt::format("metric \"{}\"", metric.name);
      expect(!metric.name.empty() && !metric.name.starts_with("test_"), name,
             "expected a name, without test_ at its beginning");
      expect(names.insert(metric.name).second, name, "two metrics have this name; rename one");
      expect(!metric.meaning.empty(), name, "has no meaning; say what it measures");
      for (const std::string& setting : metric.settings)
        expect(find(keys_, setting) != nullptr, name,
               fmt::format("depends on {}, which is no key", setting));
    }
  }

  void check_options(const std::vector<KeyInfo>& options) const {
    std::set<std::string> names;
    for (const KeyInfo& option : options) {
      const std::string name = "--" + option.name;
      expect(is_lower_name(option.name, "-"), name,
             "expected lower-case letters, digits, '-' and '_'");
      expect(names.insert(option.name).second, name, "two options have this name; rename one");
      expect(!option.help.empty(), name, "has no help; say what the option sets");
      check_conditions(name, option, options);
    }
  }

  const TaskSpec& spec_;
  const std::vector<KeyInfo> common_, keys_;  // of every task, and with those of this one
};

// Returns the task of a config before its other keys are known: the last setting of `task`; its
// text is empty if there is none. Throws InputError if it is not a string.
TomlSetting chosen_task(const std::vector<ConfigDocument>& documents,
                        const std::vector<std::string>& overrides) {
  TomlSetting chosen{
      .name = key::task.name, .origin = documents.front().source, .value = Value(std::string())};
  for (const ConfigDocument& document : documents | std::views::reverse)
    if (const TomlSetting* setting = document.find(key::task.name)) chosen = *setting;
  for (const std::string& given : overrides)
    if (given.substr(0, given.find('=')) == key::task.name) chosen = parse_override(given, true);
  expect_input(chosen.as_type_of(Value(std::string())).has_value(),
               "{}: {} = {}: expected a string in quotes", chosen.origin, chosen.name,
               chosen.shown());
  return chosen;
}

// Throws InputError if --set replaces the task of a document that sets keys which the new task does
// not have.
void expect_keys_of(const TaskSpec& spec, const std::vector<ConfigDocument>& documents,
                    const TomlSetting& chosen) {
  const TomlSetting own = chosen_task(documents, {});
  if (own.value == chosen.value) return;
  const std::vector<KeyInfo> keys = key::with_common_keys(spec.keys);
  const auto is_known = [&](const std::string& name) {
    return name == base_key || std::ranges::any_of(keys, [&](const KeyInfo& key) {
             return key.name == name || std::ranges::count(key.limits.old_names, name) > 0;
           });
  };
  for (const ConfigDocument& document : documents)
    for (const TomlSetting& given : document.settings)
      expect_input(is_known(given.name),
                   "{}: task = {}: {} is a config of the task {}, and {} is not a key of {}; give "
                   "a config of the task {} (tapestry list)",
                   chosen.origin, chosen.shown(), documents.front().source, own.shown(),
                   printable(given.name), chosen.shown(), chosen.shown());
}

// Returns the settings of a run of another task that a task which begins with its weights has.
// Throws InputError if the task cannot begin with them.
ConfigDocument adopted(ConfigDocument run, const TaskSpec& spec, const std::string& config) {
  const Pretraining& pretraining = spec.pretraining();
  const auto& task = std::get<std::string>(*run.find(key::task.name)->value);
  expect_input(pretraining.task == task, "{}: its task is {}; expected {}, the task of {}",
               run.source, task, spec.name, config);
  const std::vector<KeyInfo> keys = key::with_common_keys(spec.keys);
  std::erase_if(run.settings, [&](const TomlSetting& setting) {
    return setting.name == key::task.name ||
           std::ranges::find(keys, setting.name, &KeyInfo::name) == keys.end();
  });
  for (TomlSetting& setting : run.settings) {
    if (setting.name != pretraining.kind.name) continue;
    expect_input(setting.value == Value(pretraining.their_kind),
                 "{}: {} = {}: expected \"{}\"; give a run of such a {}", run.source, setting.name,
                 setting.shown(), pretraining.their_kind, task);
    setting.value = Value(pretraining.own_kind);
  }
  return run;
}

// Returns the settings of stored configs that lack them, because they are of earlier versions.
ConfigDocument earlier_version() {
  return {"earlier version", fmt::format("{} = 1", key::data_rules.name)};
}

// Returns whether the program has the task, rather than Tapestry's library or a plug-in.
bool is_of_program(const TaskSpec& spec) {
  return !spec.file.empty() && std::ranges::count(loaded_plugins(), spec.file, &Plugin::file) == 0;
}

// Throws InputError unless the plug-ins are loaded that a config or --set requires; its bases
// cannot require any.
void expect_required_plugins(const ConfigDocument& config,
                             const std::vector<std::string>& overrides) {
  std::vector<TomlSetting> given;
  if (const TomlSetting* own = config.find(key::plugin.name)) given.push_back(*own);
  for (const std::string& text : overrides)
    if (text.substr(0, text.find('=')) == key::plugin.name)
      given.push_back(parse_override(text, true));
  for (const TomlSetting& one : given)  // Config refuses other types
    if (const auto* required = one.value ? std::get_if<std::string>(&*one.value) : nullptr)
      expect_plugins(*required, one.origin);
}

// Returns the plug-ins that a config uses or requires, as key::plugin names them.
std::string used_plugins(const Config& config, const TaskSpec& spec) {
  if (is_of_program(spec)) return "";
  std::vector<std::string> used;
  for (const Plugin& plugin : loaded_plugins())
    if (plugin.file == spec.file ||
        std::ranges::count(plugin.optimizers, config[key::optimizer]) > 0 ||
        requires_plugin(config[key::plugin], plugin))
      used.push_back(fmt::format("{}, {}", plugin.name, plugin.checksum));
  return fmt::format("{}", fmt::join(used, "; "));
}

Config resolve(const std::vector<ConfigDocument>& documents,
               const std::vector<std::string>& overrides) {
  const TomlSetting chosen = chosen_task(documents, overrides);
  const auto& name = std::get<std::string>(*chosen.value);
  const auto spec = task_registry().find(name);
  if (spec == task_registry().end() || !is_of_program(spec->second))
    expect_required_plugins(documents.front(), overrides);
  std::vector<std::string> tasks;
  for (const auto& [known, any] : task_registry()) tasks.push_back(known);
  expect_input(!name.empty(), "{}: has no task; add task = \"…\" as its first line, one of {}",
               documents.front().source, fmt::join(tasks, ", "));
  const std::string similar = did_you_mean(name, tasks, "\"");
  if (spec == task_registry().end())
    throw NotLoaded(fmt::format(
        "{}: task = {}: expected one of {}{}", chosen.origin, to_toml(Value(name)),
        fmt::join(tasks, ", "),
        similar.empty() ? "; --plugin FILE before the command adds your own" : similar));
  expect_keys_of(spec->second, documents, chosen);
  Config config(documents, overrides, key::with_common_keys(spec->second.keys));
  make_path_absolute(config, key::data_path);
  make_path_absolute(config, key::from);
  return config;
}

// Returns the config of a new training, which records the plug-ins that are loaded now.
Config resolve_new(const std::vector<ConfigDocument>& documents,
                   const std::vector<std::string>& overrides) {
  Config config = resolve(documents, overrides);
  config.set(key::plugin, used_plugins(config, spec_of(config)));
  return config;
}

// Throws InputError if two parameters of a task's model have the same name, with which a checkpoint
// stores them.
void expect_different_names(Module& model, const TaskSpec& spec) {
  std::set<std::string> names;
  for (const Parameter* parameter : model.parameters())
    expect_input(
        names.insert(parameter->name).second,
        "task {} of {}: two parameters are named {}; give each field of a module a name of "
        "its own in fields()",
        spec.name, registrant(spec), printable_beginning(parameter->name));
}

// Returns the config of a document that is named `name`, as load_config() does.
Config loaded(const ConfigDocument& document, const std::string& name,
              const std::vector<std::string>& overrides,
              const std::vector<ConfigDocument>& beneath) {
  std::vector<ConfigDocument> documents = with_bases(document);
  const TomlSetting own = chosen_task(documents, overrides);
  const auto spec = task_registry().find(std::get<std::string>(*own.value));
  for (const ConfigDocument& other : beneath) {
    const TomlSetting* task = other.find(key::task.name);
    documents.push_back(!task || spec == task_registry().end() || own.value == task->value
                            ? other
                            : adopted(other, spec->second, name));
  }
  Config config = resolve_new(documents, overrides);
  if (config[key::name].empty()) config.set(key::name, std::filesystem::path(name).stem().string());
  const std::string& own_name = config[key::name];
  config.expect(own_name.find('/') == std::string::npos && !own_name.starts_with("."), key::name,
                "expected the name of a folder in runs/, without '/' and a '.' at its beginning");
  if (const auto detect = spec_of(config).detect) detect(config);
  return config;
}

}  // namespace

std::map<std::string, TaskSpec> tasks_by_name(const std::vector<TaskSpec (*)()>& specs) {
  std::map<std::string, TaskSpec> tasks;
  for (TaskSpec (*const make_spec)() : specs) {
    TaskSpec spec = make_spec();
    const std::string name = spec.name;
    spec.file = file_with(reinterpret_cast<const void*>(make_spec));
    if (const auto known = tasks.find(name); known != tasks.end())
      throw InputError(fmt::format(
          "task {}: registered by {} and by {}; give one of them another TaskSpec::name", name,
          registrant(known->second), registrant(spec)));
    SpecCheck(spec).run();
    tasks.emplace(name, std::move(spec));
  }
  return tasks;
}

std::map<std::string, TaskSpec>& task_registry() {
  static std::map<std::string, TaskSpec> registry = tasks_by_name(registered_specs());
  return registry;
}

RegisterTask::RegisterTask(TaskSpec (*spec)()) { registered_specs().push_back(spec); }

const TaskSpec& spec_of(const Config& config) { return task_registry().at(config[key::task]); }

const std::vector<MetricInfo>& common_metrics() {
  using enum MetricInfo::Better;
  static const std::vector<MetricInfo> metrics{
      {"loss", "", lower, "the objective that training minimizes"},
      {"lr", "", neither, "the learning rate"},
      {"grad_norm", "", neither, "the norm of the gradient before clipping"},
      {"elapsed_s", "seconds", neither, "the time of training"},
      {"bad_steps", "", lower, "the number of steps that were skipped"},
  };
  return metrics;
}

std::string unit_of_throughput(const std::string& metric) {
  constexpr std::string_view ending = "_per_s";
  return metric.ends_with(ending) ? metric.substr(0, metric.size() - ending.size()) : "";
}

MetricInfo metric_info(const std::string& task, const std::string& name) {
  const std::string wanted = name.starts_with("test_") ? name.substr(5) : name;
  const auto spec = task_registry().find(task);
  if (spec != task_registry().end())
    for (const MetricInfo& metric : spec->second.metrics)
      if (metric.name == wanted) return metric;
  for (const MetricInfo& metric : common_metrics())
    if (metric.name == wanted) return metric;
  if (const std::string unit = unit_of_throughput(wanted); !unit.empty())
    return {wanted, unit + " per second", MetricInfo::Better::higher,
            "the throughput of the training"};
  return {.name = wanted};
}

void expect_known_metric(const Config& config) {
  const std::string& wanted = config[key::expected_metric];
  std::vector<std::string> names;
  for (const std::vector<MetricInfo>* metrics : {&spec_of(config).metrics, &common_metrics()})
    for (const MetricInfo& metric : *metrics)
      if (std::ranges::count(names, metric.name) == 0) names.push_back(metric.name);
  const bool is_known = std::ranges::any_of(
      names, [&](const std::string& name) { return wanted == name || wanted == "test_" + name; });
  config.expect(wanted.empty() || is_known, key::expected_metric,
                "expected one of {}, also with test_ at its beginning{}", fmt::join(names, ", "),
                did_you_mean(wanted, names, "\""));
}

Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides) {
  return resolve_new(with_bases({source, text}), overrides);
}

Config resolved_config(const ConfigDocument& document, const std::vector<std::string>& overrides) {
  return resolve({document, earlier_version()}, overrides);
}

Config resolved_config(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides) {
  return resolved_config(ConfigDocument(source, text), overrides);
}

Config config_as_recorded(const ConfigDocument& document) try {
  return resolved_config(document, {});
} catch (const NotLoaded&) {
  const TomlSetting chosen = chosen_task({document}, {});
  const auto spec = task_registry().find(std::get<std::string>(*chosen.value));
  std::vector<KeyInfo> keys = key::with_common_keys(
      spec == task_registry().end() ? std::vector<KeyInfo>() : spec->second.keys);
  for (const TomlSetting& given : document.settings) {
    const auto known = std::ranges::find(keys, given.name, &KeyInfo::name);
    if (known != keys.end()) {
      known->limits.choices.clear();  // such as the names of optimizers
      known->limits.used_if.clear();
    } else if (given.value) {
      keys.push_back({given.name, *given.value, "", {}});
    }
  }
  return Config({document, earlier_version()}, {}, keys);
}

Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides,
                   const std::vector<ConfigDocument>& beneath) {
  return loaded(read_config(path_or_name), path_or_name, overrides, beneath);
}

Config load_config(const ConfigDocument& document, const std::vector<std::string>& overrides,
                   const std::vector<ConfigDocument>& beneath) {
  return loaded(document, document.source, overrides, beneath);
}

std::optional<ModelKind> kind_of(const Config& config) {
  for (ModelKind& kind : spec_of(config).kinds())
    if (std::ranges::all_of(kind.settings, [&](const auto& setting) {
          return config.has(setting.first) && config.value(setting.first) == setting.second;
        }))
      return std::move(kind);
  return std::nullopt;
}

std::string learning_rate_of_another_kind(const Config& config) {
  const std::optional<ModelKind> kind = kind_of(config);
  if (!kind) return "";
  const int layer = config.origin(key::learning_rate.name).layer;
  const bool is_later = std::ranges::any_of(kind->settings, [&](const auto& setting) {
    return config.origin(setting.first).layer > layer;
  });
  const double rate = config[key::learning_rate], ratio = rate / kind->learning_rate;
  if (!is_later || (ratio >= 0.5 && ratio <= 2)) return "";
  return fmt::format("{} = {} is that of another kind of model; {} train well with --set {}={}",
                     key::learning_rate.name, rate, kind->name, key::learning_rate.name,
                     kind->learning_rate);
}

std::unique_ptr<Task> make_task(const TaskSetup& setup) {
  const TaskSpec& spec = spec_of(setup.config);
  setup.config.expect(!setup.whole_data || spec.reads_whole_data, key::task,
                      "reads no file or folder as a whole; leave out --data");
  std::unique_ptr<Task> task = spec.make(setup);
  prepare_fine_tuning(task->model(), setup.config, spec.pretraining().new_head);
  expect_different_names(task->model(), spec);
  return task;
}

}  // namespace tapestry
