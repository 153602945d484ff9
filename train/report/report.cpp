#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/file.hpp"
#include "train/report/html.hpp"
#include "train/report/page.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t most_bytes = 4'700'000;  // of a page, with what stands around its parts

// "1 h 2 min", "72 s"
std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 600) return fmt::format("{} min", whole / 60);
  return fmt::format("{:.3g} s", seconds);
}

// As a shell reads it back.
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

std::string status_of(const RunStory& story) {
  const std::string steps = story.steps() > 0 ? fmt::format("{}", story.steps()) : "?";
  const std::string where = fmt::format("step {} of {}", story.last_step, steps);
  if (story.is_trained) return "is being trained, " + where;
  if (story.last_step == 0 && story.curves.empty()) return "was not trained here";
  const auto* last = story.sessions.empty() ? nullptr : &story.sessions.back();
  if (last && last->end && last->end->how == "done")
    return fmt::format("finished, {} steps", last->end->step);
  if (last && last->end) return last->end->how + " at " + where;
  if (!story.test.is_null() || (story.steps() > 0 && story.last_step >= story.steps()))
    return fmt::format("finished, {} steps", story.last_step);
  return "ended at " + where + " without a word: it was killed, or its machine failed";
}

std::string number_text(const Json& line, const std::string& name) {
  if (line.is_null() || !line.contains(name) || !line[name].is_number()) return "";
  return fmt::format("{:.5g}", line[name].get<double>());
}

std::string task_of(const RunStory& story) {
  const auto found = story.settings.find(key::task.name);
  return found == story.settings.end() ? "" : found->second.substr(1, found->second.size() - 2);
}

std::set<std::string> figures_of(const std::vector<RunStory>& stories) {
  std::set<std::string> names;
  for (const RunStory& story : stories)
    for (const Json& line : {story.validation, story.test})
      for (const auto& [name, value] : line.items())
        if (value.is_number() && name != "step" && name != "elapsed_s") names.insert(name);
  return names;
}

// What runs came to: a column a run, and of one run alone a column a split.
std::string overview_of(const std::vector<RunStory>& stories) {
  Rows rows = {{""}, {"state"}, {"task"}, {"parameters"}, {"time of training"}};
  for (const RunStory& story : stories) {
    rows[0].push_back(story.name);
    rows[1].push_back(status_of(story));
    rows[2].push_back(task_of(story));
    rows[3].push_back(fmt::format("{}", story.count_parameters()));
    rows[4].push_back(duration_text(story.elapsed_s));
  }
  for (const std::string& name : figures_of(stories))
    for (const auto& [split, line] :
         {std::pair{"validation", &RunStory::validation}, std::pair{"test", &RunStory::test}}) {
      std::vector<std::string> row = {name + ", " + split};
      for (const RunStory& story : stories) row.push_back(number_text(story.*line, name));
      if (std::ranges::any_of(row.begin() + 1, row.end(), [](auto& cell) { return !cell.empty(); }))
        rows.push_back(row);
    }
  return html_table(rows);
}

// The settings in which runs differ, but for their name.
std::string differences_of(const std::vector<RunStory>& stories) {
  std::set<std::string> names;
  for (const RunStory& story : stories)
    for (const auto& [name, value] : story.settings) names.insert(name);
  Rows rows = {{"setting"}};
  for (const RunStory& story : stories) rows[0].push_back(story.name);
  for (const std::string& name : names) {
    std::vector<std::string> row = {name};
    for (const RunStory& story : stories) {
      const auto found = story.settings.find(name);
      row.push_back(found == story.settings.end() ? "–" : found->second);
    }
    const bool differ =
        std::adjacent_find(row.begin() + 1, row.end(), std::not_equal_to()) != row.end();
    if (differ && name != key::name.name && !name.starts_with("expected.")) rows.push_back(row);
  }
  if (rows.size() == 1) return "<p>Their configs do not differ.</p>\n";
  return html_table(rows);
}

// --- curves ---

PagePart curves_of(std::vector<Curve> curves) {
  const std::size_t most =
      std::clamp<std::size_t>(30'000 / std::max<std::size_t>(1, curves.size()), 50, 1000);
  PagePart part{.script = "curves", .data = {{"charts", Json::array()}}};
  std::ranges::stable_sort(curves, {}, [](const Curve& curve) {
    return std::pair(curve.metric != "loss", curve.metric);
  });
  std::vector<PlotLine> lines;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    Curve& curve = curves[i];
    thin_out(curve, most);
    if (i == 0 || curves[i - 1].metric != curve.metric)
      part.data["charts"].push_back({{"metric", curve.metric}, {"lines", Json::array()}});
    Json points = Json::array();
    for (const auto& [step, low, value, high] : curve.points)
      points.push_back(curve.seeds > 1 ? Json{step, low, value, high} : Json{step, value});
    part.data["charts"].back()["lines"].push_back({{"run", curve.run},
                                                   {"split", curve.split},
                                                   {"band", curve.seeds > 1},
                                                   {"seeds", curve.seeds},
                                                   {"points", points}});
    lines.push_back({.name = curve.run + " " + curve.split, .points = curve.points});
    if (i + 1 < curves.size() && curves[i + 1].metric == curve.metric) continue;
    part.fallback += svg_lines(curve.metric, "steps", lines);
    lines.clear();
  }
  return part;
}

// --- what it was ---

std::string facts_of(const RunStory& story) {
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
                       story.state->data.empty() ? "none: drawn by the seed" : story.state->data);
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
                    session.end ? session.end->how : "no word", fmt::format("{}", session.threads),
                    fmt::format("{}", session.ranks)});
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
  std::vector<std::string> again = {"tapestry", "train", story.name + "/config.toml", "--out",
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

void add_facts(Page& page, const RunStory& story, bool alone) {
  if (!alone) page.add(fmt::format("<h3>{}</h3>\n", html_text(story.name)));
  page.add(facts_of(story));
  if (story.settings.contains(key::task.name)) page.add(commands_of(story));
  if (!story.parameters.empty()) page.add(parameters_of(story));
  if (!story.config_text.empty())
    page.add(html_details("The config, every key of it, and where those that were set came from",
                          pre(story.config_text)));
  if (!story.sessions.empty())
    page.add(
        html_details(fmt::format("Its sessions: {}", story.sessions.size()), sessions_of(story)));
  if (!story.profile.empty())
    page.add(html_details("Where the time of a step goes", pre(story.profile)));
}

// --- what it learnt ---

std::optional<PagePart> samples_of(const ModelStory& shown) {
  std::vector<ShownSample> samples;
  for (const auto& [step, sample] : shown.samples) {
    ShownSample one{.step = step, .text = sample.text};
    if (sample.figure) one.pictures = std::get<PictureGrid>(*sample.figure);
    samples.push_back(std::move(one));
  }
  if (samples.empty()) return std::nullopt;
  return part_of(samples);
}

// The parts that show what a model learnt; memories go to the ladder of them all.
using Ladder = std::vector<std::pair<std::string, AgesRemembered>>;
std::vector<PagePart> parts_of(const RunStory& story, const ModelStory& shown, Ladder& ladder) {
  std::vector<PagePart> parts;
  for (const Exhibit& exhibit : shown.exhibits) {
    if (const auto* ages = std::get_if<AgesRemembered>(&exhibit)) {
      ladder.emplace_back(story.name, *ages);
      continue;
    }
    std::visit(
        [&](const auto& value) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, AgesRemembered>)
            parts.push_back(part_of(value));
        },
        exhibit);
  }
  if (auto samples = samples_of(shown)) parts.push_back(std::move(*samples));
  return parts;
}

// Those that a page has no more room for are named instead.
void add_if_it_fits(Page& page, const PagePart& part, const std::string& run) {
  Page alone("");
  alone.add(part);
  if (page.bytes() + alone.bytes() <= most_bytes) return page.add(part);
  page.add(fmt::format(
      "<p>{} of {} is left out, to keep this page below 5 MB: `{}` shows it.</p>\n",
      html_text(part.title), html_text(run), html_text(command_text({"tapestry", "report", run}))));
}

void add_models(Page& page, std::vector<RunStory>& stories) {
  Ladder ladder;
  std::vector<std::vector<PagePart>> parts;
  for (RunStory& story : stories) {
    const ModelStory shown = look_into(story);
    parts.push_back(parts_of(story, shown, ladder));
  }
  if (ladder.empty() && std::ranges::all_of(parts, [](const auto& some) { return some.empty(); }))
    return;
  page.add("<h2 id=\"learnt\">What it learnt</h2>\n");
  if (!ladder.empty()) page.add(part_of(ladder));
  for (std::size_t i = 0; i < stories.size(); ++i) {
    if (stories.size() > 1 && !parts[i].empty())
      page.add(fmt::format("<h3 class=\"run\">{}</h3>\n", html_text(stories[i].name)));
    for (const PagePart& part : parts[i]) add_if_it_fits(page, part, stories[i].name);
  }
}

// --- runs ---

// The folders of the seeds of `tapestry train --seeds`, in their order; none in a run's own.
std::vector<std::string> seeds_in(const std::string& folder) {
  std::vector<std::string> seeds;
  if (!fs::is_directory(folder) || fs::exists(Run(folder).metrics())) return seeds;
  for (std::int64_t i = 1; fs::is_directory(fmt::format("{}/seed-{}", folder, i)); ++i)
    seeds.push_back(fmt::format("{}/seed-{}", folder, i));
  return seeds;
}

std::string without_slashes(std::string name) {
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

// A run, or those of several seeds as one: its model is then the first seed's.
RunStory story_of(const std::string& name) {
  const std::vector<std::string> seeds = seeds_in(name);
  if (seeds.empty()) return read_story(name);
  std::vector<RunStory> stories;
  for (const std::string& seed : seeds) stories.push_back(read_story(seed));
  RunStory story = joined(seeds.front(), stories);
  for (Curve& curve : story.curves) curve.run = name;
  return story;
}

std::string notes_of(const std::vector<RunStory>& stories) {
  std::string items;
  for (const RunStory& story : stories)
    for (const std::string& note : story.notes) items += "<li>" + html_text(note) + "</li>\n";
  if (items.empty()) return "";
  return "<h2>What could not be shown</h2>\n<ul>\n" + items + "</ul>\n";
}

}  // namespace

std::string report_of(const std::vector<std::string>& runs) {
  std::vector<RunStory> stories;
  std::vector<Curve> curves;
  std::vector<std::string> names;
  for (const std::string& run : runs) {
    names.push_back(without_slashes(run));
    stories.push_back(story_of(names.back()));
    for (Curve& curve : stories.back().curves) {
      curve.run = names.back();
      curves.push_back(std::move(curve));
    }
  }
  const std::string title = fmt::format("{}", fmt::join(names, ", "));
  Page page(title + " · Tapestry");
  page.add(
      fmt::format("<header><h1>{}</h1>\n<nav><a href=\"#curves\">Curves</a> "
                  "<a href=\"#learnt\">What it learnt</a> <a href=\"#was\">What it was</a>"
                  "</nav></header>\n<main>\n",
                  html_text(title)));
  page.add(overview_of(stories));
  if (stories.size() > 1)
    page.add("<h3>Where their configs differ</h3>\n" + differences_of(stories));
  page.add("<h2 id=\"curves\">Curves</h2>\n");
  if (curves.empty())
    page.add("<p>Nothing was measured yet.</p>\n");
  else
    page.add(curves_of(std::move(curves)));
  add_models(page, stories);
  page.add("<h2 id=\"was\">What it was</h2>\n");
  for (const RunStory& story : stories) add_facts(page, story, stories.size() == 1);
  page.add(notes_of(stories) + "</main>\n");
  return page.html();
}

}  // namespace tapestry
