#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tools/init/init.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Fit = Recognized::Fit;

// Returns a description of a file or folder: "text that begins with \"a,b\"".
std::string appearance(const std::string& path) {
  if (is_pattern(path)) return "a pattern of files";
  if (fs::is_directory(path)) {
    const std::vector<std::string> names = file_names(path);
    std::vector<std::string> first(names.begin(),
                                   names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)));
    return fmt::format("a folder of {} ({}{})", counted(std::ssize(names), "entry", "entries"),
                       list_briefly(first), names.size() > first.size() ? ", …" : "");
  }
  std::string beginning(40, '\0');
  InputFile file(path);
  beginning.resize(file.read(beginning));
  std::size_t end = 0;  // end of the complete characters
  while (end < beginning.size()) {
    const CodePoint point = code_point_at(beginning, end);
    if (point.bytes == 0 || (point.value < ' ' && !std::isspace(static_cast<int>(point.value))))
      break;
    end += point.bytes;
  }
  if (end + 3 < beginning.size()) {
    std::string bytes;
    for (const unsigned char byte : beginning.substr(0, 8)) bytes += fmt::format(" {:02x}", byte);
    return "a binary file beginning with" + bytes;
  }
  const std::string line = beginning.substr(0, std::min(end, beginning.find('\n')));
  return fmt::format("text that begins with \"{}\"", printable(line));
}

// Throws InputError unless the path is a readable file or folder with content.
void require_content(const std::string& path) {
  require_utf8(path, "DATA");  // a config is UTF-8
  if (is_pattern(path)) return;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  expect_input(status.type() != fs::file_type::not_found,
               "{}: no such file or folder; check the path", path);
  expect_input(status.type() != fs::file_type::none,
               "{}: cannot be read: {}; check the path and its permissions", path,
               failed.message());
  if (fs::is_directory(status))
    expect_input(!file_names(path).empty(),
                 "{}: the folder is empty; expected data; give another path", path);
  else
    expect_input(InputFile(path).most_bytes() > 0,
                 "{}: the file is empty; expected data; give another path", path);
}

// Returns why the data are not of a kind: "as text: 6 characters, expected at least 1000; give a
// longer text". A reason with more than `most` bytes loses its advice, unless that is a command,
// and is cut to `most` bytes.
std::string reason(const FoundData& found, std::size_t most) {
  std::string why = found.data.refusal;
  if (why.starts_with(found.path + ": ")) why.erase(0, found.path.size() + 2);
  const std::size_t advice = why.find("; ");
  const bool has_command = advice != why.npos && why.find(" iconv ", advice) != why.npos;
  if (advice == why.npos || (why.size() > most && !has_command)) {
    why = why.substr(0, advice);
    why = (why.size() > most ? why.substr(0, most) + "…" : why) + "; correct the data";
  }
  return fmt::format("as {}: {}", found.data.kind, printable(why));
}

// Returns how many bytes of two lines are left beside a part of a message; at least 60.
std::size_t left_of(const std::string& part) {
  constexpr std::size_t most = 180;  // beside the name of the program, the kind, and an advice
  return most - std::min(part.size(), most - 60);
}

// Returns the message for data of none of the kinds. `nearest` is the most similar kind.
std::string refusal(const FoundData& nearest, const std::vector<std::string>& kinds) {
  const std::string& path = nearest.path;
  if (nearest.data.asks) return nearest.data.refusal;
  if (kinds.size() == 1 || nearest.data.fit != Fit::refused)
    return fmt::format("{}: {}", path, reason(nearest, left_of(path)));
  return fmt::format("{}: expected {} or {}; found {}; give other data", path,
                     fmt::join(kinds.begin(), kinds.end() - 1, ", "), kinds.back(),
                     appearance(path));
}

// Returns the message for data that are read as `possible` only on request.
std::string request(const std::vector<FoundData>& all, const FoundData& possible) {
  const std::string &path = possible.path, &name = possible.data.name;
  const auto is_similar = [](const FoundData& found) { return found.data.fit == Fit::similar; };
  const auto similar = std::ranges::find_if(all | std::views::reverse, is_similar);  // as above
  const std::string advice = fmt::format("add --task {} to train on these data as {}", name, name);
  const auto is_doubtful = [&](const FoundData& found) {
    return found.data.fit == Fit::on_request && !found.data.refusal.empty() &&
           (found.data.asks || &found != &possible);
  };
  const auto doubt = std::ranges::find_if(all, is_doubtful);
  if (doubt != all.end() && possible.data.fit < Fit::possible)
    return fmt::format("{}: {}; or {}", path, doubt->data.refusal, advice);
  if (similar != all.rend() && similar->data.asks)
    return fmt::format("{}; or {}", similar->data.refusal, advice);
  if (similar != all.rend())
    return fmt::format("{}: {}; or {}", path, reason(*similar, left_of(path + advice)), advice);
  return possible.data.refusal.empty()
             ? fmt::format("{}: found {}; {}", path, appearance(path), advice)
             : fmt::format("{}: {}; or {}", path, possible.data.refusal, advice);
}

// Returns whether a task has the keys that the user sets, and one for the column of the labels.
bool has_keys(const std::string& task, const UserData& given) {
  const Config config = parse_config(fmt::format("task = \"{}\"\n", task), "init", {});
  const bool has_label =
      config.declares("data.label_field") || config.declares("data.label_column");
  return (has_label || given.label.empty()) &&
         std::ranges::all_of(given.overrides, [&](const std::string& text) {
           return config.declares(parse_override(text, false).name);
         });
}

// Refuses data of a kind that has no setting with the label of the user.
void expect_label(Recognized& data, const std::string& label) {
  const auto is_label = [&](const ChosenSetting& one) { return one.value == Value(label); };
  if (label.empty() || data.fit < Fit::on_request || std::ranges::any_of(data.settings, is_label))
    return;
  data.fit = Fit::refused;
  data.refusal = "has no labels to choose with --label; leave it out";
}

// Adds the settings that the user gave to those that were found, and what they make the task read
// from the data.
void add_overrides(FoundData& found, const std::vector<std::string>& overrides) {
  std::vector<ChosenSetting>& settings = found.data.settings;
  std::vector<ChosenSetting> all = settings;
  all.push_back({key::data_path.name, found.path});
  const Config config = parse_config(config_text(found, all), "init", overrides);
  for (const std::string& text : overrides) {
    const std::string key = parse_override(text, false).name;
    std::erase_if(settings, [&](const ChosenSetting& other) { return other.key == key; });
    settings.push_back({key, config.value(key), "as given"});
    for (std::vector<ChosenSetting>& smaller : found.data.smaller)
      std::erase_if(smaller, [&](const ChosenSetting& other) { return other.key == key; });
  }
  Config detected = config;
  if (const auto detect = spec_of(config).detect; detect && !overrides.empty()) detect(detected);
  for (const KeyInfo& key : spec_of(config).keys)
    if (detected.value(key.name) != config.value(key.name))
      settings.push_back({key.name, detected.value(key.name), "found in the data"});
  std::erase_if(found.data.smaller, [](const auto& smaller) { return smaller.empty(); });
}

}  // namespace

FoundData recognize_data(const UserData& given, const std::string& wanted) {
  const std::string& path = given.path;
  UserData of_data = given;  // how data are read does not depend on the model
  std::erase_if(of_data.overrides, [](const std::string& text) {
    return !parse_override(text, false).name.starts_with("data.");
  });
  require_content(path);
  std::vector<FoundData> all;
  std::vector<std::string> names, kinds;
  const bool is_any_left = std::ranges::any_of(task_registry(), [&](const auto& task) {
    return task.second.recognize && has_keys(task.first, given);
  });
  for (const auto& [task, spec] : task_registry()) {
    if (!spec.recognize) continue;
    const bool drops_out = is_any_left && wanted.empty() && !has_keys(task, given);
    for (Recognized& data : spec.recognize(of_data)) {
      names.push_back(data.name);
      if (!wanted.empty() && wanted != data.name && wanted != task) continue;
      expect_label(data, given.label);
      if (drops_out) data.fit = Fit::refused;
      if (std::ranges::count(kinds, data.kind) == 0) kinds.push_back(data.kind);
      all.push_back({.path = path, .task = task, .data = std::move(data)});
    }
  }
  expect_input(!all.empty(), "--task {}: expected one of {}", wanted, fmt::join(names, ", "));
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const FoundData& found) { return found.data.fit; });
  const Fit best = all.front().data.fit;
  std::vector<std::string> readable, equal;
  bool is_asked = best == Fit::on_request && wanted.empty();
  for (const FoundData& found : all) {
    if (found.data.fit >= Fit::on_request) readable.push_back(found.data.name);
    if (found.data.fit == best) equal.push_back("--task " + found.data.name);
    is_asked |= best >= Fit::possible && found.data.fit == Fit::similar && found.data.asks;
  }
  // Of equally similar kinds the last is the most specific: a list of names is also a text.
  if (readable.empty()) throw InputError(refusal(all[equal.size() - 1], kinds));
  if (is_asked && (best == Fit::on_request || equal.size() == 1))
    throw InputError(request(all, all.front()));
  expect_input(equal.size() == 1, "{}: {}, which can be read in several ways; add {}", path,
               appearance(path), fmt::join(equal, " or "));
  add_overrides(all.front(), given.overrides);
  all.front().others.assign(readable.begin() + 1, readable.end());
  return std::move(all.front());
}

std::string show(const FoundData& found) {
  std::string text = fmt::format("{}: {}\n", printable(found.path), found.data.name);
  for (const auto& [name, value] : found.data.facts.items())
    text += fmt::format("  {:<22} {}\n", name,
                        value.is_string() ? printable(value.get<std::string>()) : value.dump());
  for (const std::string& problem : found.data.problems)
    text += fmt::format("  note: {}\n", printable(problem));
  for (const std::string& other : found.others)
    text += fmt::format("  also possible: --task {}\n", other);
  return text;
}

}  // namespace tapestry
