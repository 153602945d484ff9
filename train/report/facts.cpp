#include "train/report/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/file.hpp"
#include "train/report/html.hpp"
#include "train/settings/keys.hpp"

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
  Rows rows = {{"began (UTC)", "from step", "ended", "at step", "how", "threads", "processes"}};
  for (const Session& session : story.sessions)
    rows.push_back({session.began, fmt::format("{}", session.from_step),
                    session.end ? session.end->at : "",
                    session.end ? fmt::format("{}", session.end->step) : "",
                    session.end                                              ? session.end->how
                    : story.is_trained && &session == &story.sessions.back() ? "it trains"
                                                                             : "no word",
                    fmt::format("{}", session.threads), fmt::format("{}", session.ranks)});
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

// What makes the run again: from its own config, into another folder.
std::string commands_of(const RunStory& story) {
  std::vector<std::string> again = {"tapestry", "train", story.folder + "/config.toml", "--out",
                                    story.name + "-again"};
  std::string html;
  if (!story.sessions.empty()) {
    const Session& first = story.sessions.front();
    if (first.ranks > 1)
      again.insert(again.begin(), {"mpirun", "-n", fmt::format("{}", first.ranks)});
    html = "<p>It was begun by</p>\n" + pre(command_text(first.command));
  }
  return html + "<p>To make it again, to the same bits on the same processor:</p>\n" +
         pre(command_text(again));
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
