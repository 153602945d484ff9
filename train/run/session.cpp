#include "train/run/session.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <set>

#include "autograd/buffer_pool.hpp"
#include "autograd/counted.hpp"
#include "autograd/parallel.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/run/lines.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::size_t most_sessions = 1000;
// Maximum size in bytes of a command or a failure in one line.
constexpr std::size_t most_words_bytes = 4000;

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

// Returns the command line of this process. Linux ends each word with a zero byte.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  std::size_t bytes = 0;
  for (std::string word; std::getline(file, word, '\0') && bytes < most_words_bytes;
       bytes += word.size())
    words.push_back(word.substr(0, most_words_bytes - bytes));
  return words;
}

// Returns whether the last line is complete: a process may have been killed while it wrote one.
bool ends_in_a_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() == 0) return true;
  file.seekg(-1, std::ios::end);
  return file.get() == '\n';
}

void append(RunLock& lock, const Json& line) {
  const std::string path = lock.run().sessions();
  const std::string before = ends_in_a_line(path) ? "" : "\n";
  File file(lock.place(path), O_WRONLY | O_CREAT | O_APPEND);
  file.write(before + line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.sync();
  file.close();
}

Json to_json(const std::vector<ChangedSetting>& changed) {
  Json all = Json::array();
  for (const auto& [key, before, after] : changed)
    all.push_back({{"key", key}, {"before", before}, {"after", after}});
  return all;
}

std::optional<std::vector<ChangedSetting>> changed_of(const Json& line) {
  const auto found = line.find("changed");
  if (found == line.end()) return std::nullopt;
  std::vector<ChangedSetting> changed;
  for (const Json& one : *found)
    changed.push_back({.key = one.at("key").get<std::string>(),
                       .before = one.at("before").get<std::string>(),
                       .after = one.at("after").get<std::string>()});
  return changed;
}

// Returns the overrides of --set, sorted.
std::vector<std::string> typed_settings(const Session& session) {
  std::vector<std::string> typed;
  for (std::size_t i = 0; i < session.command.size(); ++i) {
    if (session.command[i] == "--set" && i + 1 < session.command.size())
      typed.push_back(session.command[i + 1]);
    if (session.command[i].starts_with("--set=")) typed.push_back(session.command[i].substr(6));
  }
  std::ranges::sort(typed);
  return typed;
}

Session begun(const Json& line) {
  Checksums splits;
  for (const char* name : split_checksums)
    if (line.contains(name)) splits[name] = line.at(name).get<std::string>();
  return {.began = line.at("began").get<std::string>(),
          .from_step = line.at("from_step").integer(),
          .version = line.at("version").get<std::string>(),
          .backends = line.at("engines").get<std::string>(),
          .processor = line.at("processor").get<std::string>(),
          .threads = line.at("threads").integer(),
          .ranks = line.at("ranks").integer(),
          .command = line.at("command").get<std::vector<std::string>>(),
          .examples = line.at("examples").integer(),
          .data = line.at("data").get<std::string>(),
          .splits = std::move(splits),
          .changed = changed_of(line)};
}

Session::End ended(const Json& line) {
  return {.at = line.at("ended").get<std::string>(),
          .how = line.at("how").get<std::string>(),
          .step = line.at("step").integer(),
          .tensor_bytes = line.at("tensor_bytes").integer()};
}

}  // namespace

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(':') != std::string::npos)
      return std::string(trimmed(std::string_view(line).substr(line.find(':') + 1)));
  return "unknown";
}

std::string value_in(const ConfigSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

std::vector<std::string> names_that_differ(const std::vector<const ConfigSettings*>& all) {
  std::set<std::string> names;
  for (const ConfigSettings* settings : all)
    for (const auto& [name, value] : *settings) names.insert(name);
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::all_of(all, [&](const ConfigSettings* settings) {
      return value_in(*settings, name) == value_in(*all.front(), name);
    });
  });
  return {names.begin(), names.end()};
}

std::vector<ChangedSetting> changes(const Config& one, const Config& other) {
  const ConfigSettings before = one.settings_that_count(), after = other.settings_that_count();
  std::vector<ChangedSetting> changed;
  for (const std::string& name : names_that_differ({&before, &after}))
    if (name != key::data_path.name && name != key::from.name)
      changed.push_back({name, value_in(before, name), value_in(after, name)});
  return changed;
}

std::string to_text(const std::vector<ChangedSetting>& changed) {
  const auto shown = [](const std::string& value) { return value.empty() ? "not used" : value; };
  std::string text;
  for (const auto& [key, before, after] : changed)
    text += fmt::format("{}{} = {} (before: {})", text.empty() ? "" : ", ", key, shown(after),
                        shown(before));
  return text;
}

void record_begin(RunLock& lock, const TrainingState& from, std::int64_t ranks,
                  const std::optional<std::vector<ChangedSetting>>& changed) {
  Json line{{"began", now()},          {"from_step", from.step},    {"version", version()},
            {"engines", backends()},   {"processor", processor()},  {"threads", num_threads()},
            {"ranks", ranks},          {"examples", from.examples}, {"data", from.data},
            {"command", own_command()}};
  for (const auto& [name, sum] : from.splits) line[name] = sum;
  if (changed) line["changed"] = to_json(*changed);
  append(lock, line);
}

void record_end(RunLock& lock, std::int64_t step, const std::string& how) {
  append(lock, {{"ended", now()},
                {"step", step},
                {"how", how.substr(0, most_words_bytes)},
                {"tensor_bytes", memory_use().peak_bytes_in_use}});
}

std::string outcome(const std::vector<Session>& sessions, const Reached& reached) {
  const Session::End* end =
      sessions.empty() || !sessions.back().end ? nullptr : &*sessions.back().end;
  const std::int64_t step = end ? std::max(end->step, reached.step) : reached.step;
  const std::string where =
      fmt::format("step {} of {}", step, reached.steps > 0 ? fmt::to_string(reached.steps) : "?");
  if (end && end->how == "done") return "finished, " + counted(end->step, "step");
  if (end) return end->how + " at " + where;
  if (reached.is_tested || (reached.steps > 0 && step >= reached.steps))
    return "finished, " + counted(step, "step");
  if (sessions.empty()) return "ended at " + where;
  return "ended at " + where + " without a record of its end: it was killed, or the machine failed";
}

std::vector<Session> read_sessions(const Run& run) {
  std::vector<Session> sessions;
  for (LineReader line(run.sessions()); line.next();) {
    parse_line(line.text(), [&](const Json& read) {
      if (read.contains("began")) sessions.push_back(begun(read));
      if (read.contains("ended") && !sessions.empty()) sessions.back().end = ended(read);
      return true;
    });
    if (sessions.size() >= 2 * most_sessions)
      sessions.erase(sessions.begin(), sessions.end() - most_sessions);
  }
  if (sessions.size() > most_sessions)
    sessions.erase(sessions.begin(), sessions.end() - most_sessions);
  return sessions;
}

std::vector<Session> sessions_within(const std::vector<Session>& all, std::int64_t first,
                                     std::int64_t last) {
  std::vector<Session> some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].from_step < last && (i + 1 == all.size() || all[i + 1].from_step >= first))
      some.push_back(all[i]);
  return some;
}

// Returns the settings before the later sessions: reverts what each of them changed, the last one
// first.
ConfigSettings settings_before(const std::vector<Session>& sessions, std::size_t session) {
  ConfigSettings settings;
  for (std::size_t i = sessions.size(); i-- > session + 1;)
    for (const ChangedSetting& one : sessions[i].changed.value_or(std::vector<ChangedSetting>{}))
      settings[one.key] = one.before;
  return settings;
}

bool knows_settings(const std::vector<Session>& sessions) {
  return std::ranges::all_of(sessions, [&](const Session& session) {
    return session.changed || session.from_step == 0 ||
           typed_settings(session) == typed_settings(sessions.front());
  });
}

}  // namespace tapestry
