#include "train/task.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "data/file.hpp"
#include "train/settings/keys.hpp"
#include "train/settings/shipped_configs.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t max_config_bytes = 1 << 20;

template <class Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

// A relative data.path is relative to the folder the command runs in; runs keep it absolute, and
// without a slash at its end, so that its last part is a name.
void make_path_absolute(Config& config) {
  if (config[key::data_path].empty()) return;
  require_utf8(config[key::data_path], key::data_path.name);  // or it could not be written as TOML
  const std::filesystem::path path = std::filesystem::absolute(config[key::data_path]);
  config.set(key::data_path, (path.has_filename() ? path : path.parent_path()).string());
}

}  // namespace

std::map<std::string, TaskType>& task_registry() {
  static std::map<std::string, TaskType> registry;
  return registry;
}

Config parse_config(const std::string& text, const std::string& source,
                    const std::vector<std::string>& overrides) {
  const std::string name = Config::peek(text, source, overrides, "task");
  const auto type = task_registry().find(name);
  const std::vector<std::string> tasks = names_of(task_registry());
  expect_input(!name.empty(), "{}: no task; the first line of a config is task = \"{}\"", source,
               tasks.front());
  expect_input(type != task_registry().end(),
               "{}: task = \"{}\": expected one of {}; did you mean \"{}\"?", source, name,
               fmt::join(tasks, ", "), nearest(name, tasks));
  Config config(text, source, overrides, key::with_common_keys(type->second.keys));
  make_path_absolute(config);
  return config;
}

Config load_config(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  namespace fs = std::filesystem;
  const auto shipped = shipped_configs().find(path_or_name);
  std::string default_name = fs::path(path_or_name).stem().string();
  std::string text;
  if (fs::is_regular_file(path_or_name)) {
    text = read_file(path_or_name, max_config_bytes);
  } else {
    const std::vector<std::string> names = names_of(shipped_configs());
    expect_input(
        shipped != shipped_configs().end(),
        "{}: no such file and no shipped config of that name; did you mean {}? (shipped: {})",
        path_or_name, nearest(path_or_name, names), fmt::join(names, ", "));
    text = shipped->second;
  }
  Config config = parse_config(text, path_or_name, overrides);
  if (config[key::name].empty()) config.set(key::name, default_name);
  const std::string& name = config[key::name];
  config.expect(name.find('/') == std::string::npos && !name.starts_with("."), key::name,
                "expected the name of a folder in runs/; --out names any folder");
  return config;
}

std::unique_ptr<Task> make_task(const TaskSetup& setup) {
  return task_registry().at(setup.config[key::task]).make(setup);
}

}  // namespace tapestry
