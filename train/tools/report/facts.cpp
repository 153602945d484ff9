#include "train/tools/report/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/file.hpp"
#include "train/config/keys.hpp"
#include "train/tools/report/html.hpp"

namespace tapestry {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string table_of(const RunStory& story) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (story.state) {
    facts.emplace_back("model shown", fmt::format("that of step {}", story.state->step));
    facts.emplace_back("training examples", fmt::format("{}", story.state->examples));
  }
  const auto path = story.settings.find(key::data_path.name);
  if (path != story.settings.end())
    facts.emplace_back("data", path->second == "\"\"" ? "built in" : path->second);
  if (story.state)
    facts.emplace_back("checksum of the data",
                       story.state->data.empty() ? "none: it is built in" : story.state->data);
  if (!story.engines.empty()) facts.emplace_back("computed by", story.engines);
  if (!story.sessions.empty()) {
    const Session& last = story.sessions.back();
    facts.emplace_back("version", last.version);
    facts.emplace_back("processor", last.processor);
    facts.emplace_back("threads and processes", fmt::format("{}, {}", last.threads, last.ranks));
  }
  return html_facts(facts);
}

std::string sessions_of(const RunStory& story) {
  Rows rows = {
      {"began (UTC)", "from step", "ended", "at step", "how", "threads", "processes", "changed"}};
  for (const Session& session : story.sessions)
    rows.push_back({session.began, fmt::format("{}", session.from_step),
                    session.end ? session.end->at : "",
                    session.end ? fmt::format("{}", session.end->step) : "",
                    session.end                                              ? session.end->how
                    : story.is_trained && &session == &story.sessions.back() ? "it trains"
                                                                             : "no word",
                    fmt::format("{}", session.threads), fmt::format("{}", session.ranks),
                    session.changed ? to_text(*session.changed) : ""});
  return html_table(rows);
}

// "blocks.0" of "blocks.0.attention.output.weight", "head" of "head.weight"
std::string module_of(const std::string& parameter) {
  std::string module;
  for (const std::string_view part : split(parameter, '.')) {
    if (!module.empty() && part.find_first_not_of("0123456789") != std::string_view::npos) break;
    module += (module.empty() ? "" : ".") + std::string(part);
  }
  return module;
}

std::string parameters_of(const RunStory& story) {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, story.count_parameters()));
  Rows modules = {{"module", "parameters", "share"}}, tensors = {{"tensor", "shape", "parameters"}};
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  for (const auto& [name, shape, size] : story.parameters) {
    tensors.push_back({name, shape, fmt::format("{}", size)});
    const std::string module = module_of(name);
    const auto found =
        std::ranges::find(sizes, module, &std::pair<std::string, std::int64_t>::first);
    if (found == sizes.end())
      sizes.emplace_back(module, size);
    else
      found->second += size;
  }
  for (const auto& [module, size] : sizes)
    modules.push_back({module, fmt::format("{}", size),
                       fmt::format("{:.1f} %", 100 * static_cast<double>(size) / total)});
  return html_details(fmt::format("{} parameters, by layer", story.count_parameters()),
                      html_table(modules) + html_details("Each tensor", html_table(tensors)));
}

std::string pre(const std::string& text) { return fmt::format("<pre>{}</pre>\n", html_text(text)); }

// One of the run's sessions that others went on from, and where the next of these began; the last
// one has no end.
struct Part {
  std::size_t session = 0;
  std::optional<std::int64_t> end{};
};

// What a session did after the step that a later one began from was done again by that one.
std::vector<Part> parts_of(const std::vector<Session>& sessions) {
  std::vector<Part> parts;
  std::optional<std::int64_t> end;
  for (std::size_t i = sessions.size(); i-- > 0;) {
    if (end && sessions[i].from_step >= *end) continue;
    parts.insert(parts.begin(), {.session = i, .end = end});
    end = sessions[i].from_step;
  }
  return parts;
}

// Settings of a session that are not those of config.toml: it has to end where the next one began,
// with the learning rates that it had.
std::map<std::string, std::string> settings_of(const RunStory& story, const Part& part) {
  std::map<std::string, std::string> settings = settings_before(story.sessions, part.session);
  const auto value = [&](const std::string& key) -> std::string {
    if (const auto own = settings.find(key); own != settings.end()) return own->second;
    const auto last = story.settings.find(key);
    return last == story.settings.end() ? "" : last->second;
  };
  const std::string decay = value(key::decay_steps.name);  // empty where nothing decays
  if (part.end && !decay.empty())
    settings[key::decay_steps.name] = decay == "0" ? value(key::steps.name) : decay;
  if (part.end) settings[key::steps.name] = fmt::format("{}", *part.end);
  std::erase_if(settings, [](const auto& setting) { return setting.second.empty(); });
  return settings;
}

// Makes the run again, from its own config, into another folder.
std::string again(const RunStory& story, const Part& part) {
  std::vector<std::string> words = {"tapestry", "train", story.folder + "/config.toml", "--out",
                                    story.name + "-again"};
  const Session& first = story.sessions.front();
  if (first.ranks > 1)
    words.insert(words.begin(), {"mpirun", "-n", fmt::format("{}", first.ranks)});
  if (story.sessions[part.session].from_step > 0) words.push_back("--resume");
  for (const auto& [key, value] : settings_of(story, part))
    words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
  return command_text(words);
}

std::string commands_of(const RunStory& story) {
  if (story.sessions.empty())
    return "<p>To make it again, to the same bits on the same processor:</p>\n" +
           pre(command_text({"tapestry", "train", story.folder + "/config.toml", "--out",
                             story.name + "-again"}));
  std::string html = "<p>It was begun by</p>\n" + pre(command_text(story.sessions.front().command));
  if (!knows_settings(story.sessions))
    return html +
           "<p>It was resumed with other settings, which an earlier version did not record: the "
           "commands of its sessions make it again, where their configs are as they were.</p>\n";
  const bool is_changed = std::ranges::any_of(story.sessions, [](const Session& session) {
    return session.changed && !session.changed->empty();
  });
  if (is_changed) html += "<p>Its settings were changed when it was resumed.</p>\n";
  std::string commands;
  for (const Part& part : is_changed ? parts_of(story.sessions) : std::vector<Part>{{}})
    commands += (commands.empty() ? "" : "\n") + again(story, part);
  return html + "<p>To make it again, to the same bits on the same processor:</p>\n" +
         pre(commands);
}

}  // namespace

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=./:,@%") == std::string::npos;
    std::string quoted = word;
    for (std::size_t at = quoted.find('\''); at != std::string::npos;
         at = quoted.find('\'', at + 4))
      quoted.replace(at, 1, "'\\''");
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  return text;
}

std::string facts_of(const RunStory& story) {
  std::string html = table_of(story);
  if (story.settings.contains(key::task.name)) html += commands_of(story);
  if (!story.parameters.empty()) html += parameters_of(story);
  if (!story.config_text.empty())
    html += html_details("The config, every key of it, and where those that were set came from",
                         pre(story.config_text));
  if (!story.sessions.empty())
    html +=
        html_details(fmt::format("Its sessions: {}", story.sessions.size()), sessions_of(story));
  if (!story.profile.empty())
    html += html_details("Where the time of a step goes", pre(story.profile));
  return html;
}

}  // namespace tapestry
