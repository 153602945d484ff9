#include <fmt/format.h>

#include <algorithm>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string sessions_of(const RecordedRun& recorded) {
  Rows rows = {
      {"began (UTC)", "from step", "ended", "at step", "how", "threads", "processes", "changed"}};
  for (const Session& session : recorded.sessions)
    rows.push_back({session.began, fmt::format("{}", session.from_step),
                    session.end ? session.end->at : "",
                    session.end ? fmt::format("{}", session.end->step) : "",
                    session.end ? session.end->how
                    : recorded.is_trained && &session == &recorded.sessions.back() ? "running"
                                                                                   : "unknown",
                    fmt::format("{}", session.threads), fmt::format("{}", session.ranks),
                    session.changed ? to_text(*session.changed) : ""});
  return html_table(rows);
}

// Returns "blocks.0" for "blocks.0.attention.output.weight", and "head" for "head.weight".
std::string module_of(const std::string& parameter) {
  std::string module;
  for (const std::string_view part : split(parameter, '.')) {
    if (!module.empty() && part.find_first_not_of("0123456789") != std::string_view::npos) break;
    module += (module.empty() ? "" : ".") + std::string(part);
  }
  return module;
}

std::string parameters_of(const RecordedRun& recorded) {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, recorded.parameter_count));
  Rows modules = {{"module", "parameters", "share"}}, tensors = {{"tensor", "shape", "parameters"}};
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  for (const SafetensorsEntry& entry : recorded.parameters) {
    const std::int64_t size = entry.shape.elements();
    tensors.push_back({entry.name, to_string(entry.shape), fmt::format("{}", size)});
    const std::string module = module_of(entry.name);
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
  return html_details(counted(recorded.parameter_count, "parameter") + ", by layer",
                      html_table(modules) + html_details("Each tensor", html_table(tensors)));
}

std::string pre(const std::string& text) { return fmt::format("<pre>{}</pre>\n", html_text(text)); }

// Returns words quoted for a shell. A word that begins with "-" is an option, so the "./" that
// shell_word() puts before such a path is removed.
std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const std::string quoted = shell_word(word);
    text += (text.empty() ? "" : " ") + (word.starts_with('-') ? quoted.substr(2) : quoted);
  }
  return text;
}

// A session, and the step at which a later session resumed from it; none for the last session.
struct Part {
  std::size_t session = 0;
  std::optional<std::int64_t> end{};
};

// Returns the sessions with steps that no later session repeated.
std::vector<Part> parts_of(const std::vector<Session>& sessions) {
  std::vector<Part> sections;
  std::optional<std::int64_t> end;
  for (std::size_t i = sessions.size(); i-- > 0;) {
    if (end && sessions[i].from_step >= *end) continue;
    sections.insert(sections.begin(), {.session = i, .end = end});
    end = sessions[i].from_step;
  }
  return sections;
}

// Returns the settings that differ from config.toml, with which a repeated session ends where the
// next session began and has the same learning rates.
ConfigSettings settings_of(const RecordedRun& recorded, const Part& section) {
  ConfigSettings settings = settings_before(recorded.sessions, section.session), all = settings;
  all.insert(recorded.settings.begin(), recorded.settings.end());
  // Empty if the schedule has no decay.
  const std::string decay = value_in(all, key::decay_steps.name);
  if (section.end && !decay.empty())
    settings[key::decay_steps.name] = decay == "0" ? value_in(all, key::steps.name) : decay;
  if (section.end) settings[key::steps.name] = fmt::format("{}", *section.end);
  std::erase_if(settings, [](const auto& setting) { return setting.second.empty(); });
  return settings;
}

// Returns the command that repeats a session with the run's config in another folder.
std::string again(const RecordedRun& recorded, const Part& section) {
  std::vector<std::string> words = {"train", recorded.folder + "/config.toml", "--out",
                                    recorded.name + "-again"};
  const Session& first = recorded.sessions.front();
  if (recorded.sessions[section.session].from_step > 0) words.push_back("--resume");
  for (const auto& [key, value] : settings_of(recorded, section))
    words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
  return fmt::format("{}{} {}", first.ranks > 1 ? fmt::format("mpirun -n {} ", first.ranks) : "",
                     own_program(), command_text(words));
}

std::string commands_of(const RecordedRun& recorded) {
  if (recorded.sessions.empty())
    return "<p>To repeat the training, with the same bits on the same processor:</p>\n" +
           pre(own_program() + " " +
               command_text(
                   {"train", recorded.folder + "/config.toml", "--out", recorded.name + "-again"}));
  std::string html =
      "<p>The training began with</p>\n" + pre(command_text(recorded.sessions.front().command));
  if (!knows_settings(recorded.sessions))
    return html +
           "<p>The training was resumed with other settings, which an earlier version did not "
           "record: the commands of the sessions repeat the training if the configs are "
           "unchanged.</p>\n";
  const bool is_changed = std::ranges::any_of(recorded.sessions, [](const Session& session) {
    return session.changed && !session.changed->empty();
  });
  if (is_changed) html += "<p>Settings were changed when the training was resumed.</p>\n";
  std::string commands;
  for (const Part& section : is_changed ? parts_of(recorded.sessions) : std::vector<Part>{{}})
    commands += (commands.empty() ? "" : "\n") + again(recorded, section);
  return html + "<p>To repeat the training, with the same bits on the same processor:</p>\n" +
         pre(commands);
}

}  // namespace

std::string origin_of(const RecordedRun& recorded) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (recorded.state) {
    facts.emplace_back("model shown", fmt::format("that of step {}", recorded.state->step));
    facts.emplace_back("training examples", fmt::format("{}", recorded.state->examples));
  }
  if (const std::string path = value_in(recorded.settings, key::data_path.name); !path.empty())
    facts.emplace_back("data", path == "\"\"" ? "built in" : path);
  if (recorded.state)
    facts.emplace_back("checksum of the data", recorded.state->data.empty()
                                                   ? "none, because the data are built in"
                                                   : recorded.state->data);
  if (!recorded.backends.empty()) facts.emplace_back("computed by", recorded.backends);
  if (!recorded.sessions.empty()) {
    const Session& last = recorded.sessions.back();
    facts.emplace_back("version", last.version);
    facts.emplace_back("processor", last.processor);
    facts.emplace_back("threads and processes", fmt::format("{}, {}", last.threads, last.ranks));
  }
  return html_facts(facts);
}

std::string facts_of(const RecordedRun& recorded) {
  std::string html;
  if (recorded.settings.contains(key::task.name)) html += commands_of(recorded);
  if (!recorded.parameters.empty()) html += parameters_of(recorded);
  if (!recorded.config_text.empty())
    html += html_details("Config: all keys, with the origins of those that were set",
                         pre(recorded.config_text));
  if (!recorded.sessions.empty())
    html +=
        html_details(fmt::format("Sessions: {}", recorded.sessions.size()), sessions_of(recorded));
  if (!recorded.profile.empty()) html += html_details("Profile of a step", pre(recorded.profile));
  return html;
}

}  // namespace tapestry
