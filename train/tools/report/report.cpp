#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/text/text.hpp"
#include "train/tools/report/facts.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/overview.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Json = JsonValue;

constexpr std::size_t most_bytes = 4'600'000;  // of a page, with what stands around its parts

// --- curves ---

PagePart curves_of(std::vector<Curve> curves) {
  const std::size_t most =
      std::clamp<std::size_t>(30'000 / std::max<std::size_t>(1, curves.size()), 50, 1000);
  PagePart part{.script = "curves", .data = {{"charts", Json::array()}}};
  sort_by_interest(curves);
  const bool thinned = std::ranges::any_of(
      curves, [&](auto& one) { return one.rows_a_point > 1 || one.points.size() > most; });
  if (thinned) part.caption = "Long curves are drawn by fewer points: each is the mean of several.";
  std::vector<PlotLine> lines;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    Curve& curve = curves[i];
    thin_out(curve, most);
    if (i == 0 || curves[i - 1].metric != curve.metric)
      part.data["charts"].push_back(
          {{"metric", printable(curve.metric)}, {"lines", Json::array()}});
    Json points = Json::array();
    for (const auto& [step, low, value, high] : curve.points)
      points.push_back(curve.seeds > 1 ? Json{step, low, value, high} : Json{step, value});
    part.data["charts"].back()["lines"].push_back({{"run", printable(curve.run)},
                                                   {"split", printable(curve.split)},
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

// --- what it learnt ---

std::vector<ShownSample> samples_of(const ModelStory& shown) {
  std::vector<ShownSample> samples;
  for (const auto& [step, sample] : shown.samples) {
    const auto* pictures = sample.figure ? std::get_if<PictureGrid>(&*sample.figure) : nullptr;
    samples.push_back({.step = step, .text = sample.text});
    if (pictures) samples.back().pictures = *pictures;
  }
  return samples;
}

// The parts that show what a model learnt; memories go to the ladder of them all.
using Ladder = std::vector<std::pair<std::string, AgesRemembered>>;
std::vector<PagePart> parts_of(RunStory& story, Ladder& ladder) {
  const ModelStory shown = look_into(story);
  std::vector<PagePart> parts;
  const auto add = [&](const auto& exhibit) {
    if constexpr (std::is_same_v<std::decay_t<decltype(exhibit)>, AgesRemembered>)
      ladder.emplace_back(story.name, exhibit);
    else
      parts.push_back(part_of(exhibit));
  };
  for (const Exhibit& exhibit : shown.exhibits)
    if_possible(story, [&] { std::visit(add, exhibit); });
  if (!shown.samples.empty())
    if_possible(story, [&] { parts.push_back(part_of(samples_of(shown), story.steps())); });
  return parts;
}

std::string html_of(const PagePart& part) {
  Page alone("");
  alone.add(part);
  return alone.body();
}

// What runs learnt, as far as the page has room for it: what is left out is named.
void add_models(Page& page, std::vector<RunStory>& stories, std::size_t room) {
  Ladder ladder;
  std::vector<std::vector<PagePart>> parts(stories.size());
  std::vector<std::string> left_out;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stories.size(); ++i) {
    if (bytes > room) {
      left_out.push_back(stories[i].name);
      continue;
    }
    for (PagePart& part : parts_of(stories[i], ladder)) {
      const std::size_t size = html_of(part).size();
      if (bytes + size > room) {
        left_out.push_back(fmt::format("{}: {}", stories[i].name, part.title));
        continue;
      }
      bytes += size;
      parts[i].push_back(std::move(part));
    }
  }
  page.add("<h2 id=\"learnt\">What it learnt</h2>\n");
  if (bytes == 0 && ladder.empty())
    page.add("<p>There is nothing to show yet, or it could not be shown.</p>\n");
  if (!ladder.empty()) page.add(part_of(ladder));
  for (std::size_t i = 0; i < stories.size(); ++i) {
    if (stories.size() > 1 && !parts[i].empty())
      page.add(fmt::format("<h3 class=\"run\">{}</h3>\n", html_text(stories[i].name)));
    if (!parts[i].empty() && !stories[i].seeds.empty())
      page.add(fmt::format("<p>This is the model of {}.</p>\n", html_text(stories[i].folder)));
    for (const PagePart& part : parts[i]) page.add(part);
  }
  if (!left_out.empty())
    page.add(fmt::format("<p>Left out, to keep this page below 5 MB: {}.</p>\n",
                         html_text(fmt::format("{}", fmt::join(left_out, ", ")))));
}

// --- runs ---

// A run, or those of several seeds as one: its model is then the first seed's.
RunStory story_of(const std::string& folder) {
  const std::vector<std::string> seeds = seed_folders(folder);
  if (seeds.empty()) return read_story(folder);
  std::vector<RunStory> stories;
  for (const std::string& seed : seeds) stories.push_back(read_story(seed));
  return joined(std::move(stories));
}

// The last parts of their paths, where these tell runs apart.
std::vector<std::string> names_of(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code unseen;
    names.push_back(fs::weakly_canonical(folder, unseen).filename().string());
  }
  const std::set<std::string> unique(names.begin(), names.end());
  return unique.size() == names.size() && !unique.contains("") ? names : folders;
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
  const std::vector<std::string> folders = different_folders(runs), names = names_of(folders);
  std::vector<RunStory> stories;
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    stories.push_back(story_of(folders[i]));
    stories.back().name = names[i];
    for (Curve curve : stories.back().curves) {
      curve.run = names[i];
      curves.push_back(std::move(curve));
    }
  }
  const std::string title = names.size() > 3 ? fmt::format("{} runs", names.size())
                                             : fmt::format("{}", fmt::join(names, ", "));
  std::string facts;
  for (const RunStory& story : stories)
    facts += stories.size() == 1 ? facts_of(story) : html_details(story.name, facts_of(story));
  const std::string drawn = curves.empty() ? "<p>Nothing was measured yet.</p>\n" : "";

  Page page(title + " · Tapestry");
  page.add(fmt::format("<header><h1>{}</h1>\n", html_text(title)));
  if (stories.size() == 1) page.add(lead_of(stories.front()));
  page.add(
      "<nav><a href=\"#learnt\">What it learnt</a> <a href=\"#curves\">Curves</a> "
      "<a href=\"#was\">How it was made</a></nav></header>\n<main>\n");
  page.add(overview_of(stories));
  if (stories.size() > 1)
    page.add("<h3>Where their configs differ</h3>\n" + differences_of(stories));
  const PagePart curve_part = curves_of(std::move(curves));
  const std::size_t others = page.bytes() + facts.size() + html_of(curve_part).size();
  add_models(page, stories, most_bytes - std::min(most_bytes, others));
  page.add("<h2 id=\"curves\">Curves</h2>\n" + drawn);
  if (drawn.empty()) page.add(curve_part);
  page.add("<h2 id=\"was\">How it was made</h2>\n" + facts);
  page.add(notes_of(stories) + "</main>\n");
  return page.html();
}

}  // namespace tapestry
