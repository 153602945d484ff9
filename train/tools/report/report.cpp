#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/text/printable.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t most_bytes = 4'600'000;  // maximum size of a page in bytes

// --- the trained models ---

// The recall of memories, with the names of their runs.
using MemorySeries = std::vector<std::pair<std::string, RecallByAge>>;
std::vector<ReportSection> parts_of(RecordedRun& recorded, MemorySeries& series) {
  const ShownModel shown = inspect_model(recorded);
  std::vector<ReportSection> sections;
  const auto add = [&](const auto& panel) {
    if constexpr (std::is_same_v<std::decay_t<decltype(panel)>, RecallByAge>)
      series.emplace_back(recorded.name, panel);
    else
      sections.push_back(section_of(panel));
  };
  for (const ReportPanel& panel : shown.panels)
    if_possible(recorded, [&] { std::visit(add, panel); });
  if (!shown.samples.empty())
    if_possible(recorded, [&] { sections.push_back(section_of(shown.samples, recorded.steps())); });
  return sections;
}

std::string html_of(const ReportSection& section) {
  Page alone("");
  alone.add(section);
  return alone.body();
}

// Adds sections on the trained models, as far as these fit into the page, and names the sections
// that do not.
void add_models(Page& page, std::vector<RecordedRun>& runs, std::size_t room) {
  MemorySeries series;
  std::vector<std::vector<ReportSection>> sections(runs.size());
  std::vector<std::string> left_out;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (bytes > room) {
      left_out.push_back(runs[i].name);
      continue;
    }
    for (ReportSection& section : parts_of(runs[i], series)) {
      const std::size_t size = html_of(section).size();
      if (bytes + size > room) {
        left_out.push_back(fmt::format("{}: {}", runs[i].name, section.title));
        continue;
      }
      bytes += size;
      sections[i].push_back(std::move(section));
    }
  }
  page.add("<h2 id=\"learned\">Model</h2>\n");
  if (bytes == 0 && series.empty())
    page.add("<p>There is nothing to show yet, or the model could not be shown.</p>\n");
  for (const RecordedRun& one : runs)
    if (const std::string changed = one.data.text(); !changed.empty())
      page.add(fmt::format("<p>{}: {}</p>\n", html_text(one.folder), html_text(changed)));
  if (!series.empty()) page.add(section_of(series));
  page.add("<div class=\"sections\">\n");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (sections[i].empty()) continue;
    if (runs.size() > 1)
      page.add(fmt::format("<div><h3 class=\"run\">{}</h3>\n", html_text(runs[i].name)));
    if (!runs[i].seeds.empty())
      page.add(fmt::format("<p>This is the model of {}.</p>\n", html_text(runs[i].folder)));
    for (const ReportSection& section : sections[i]) page.add(section);
    if (runs.size() > 1) page.add("</div>\n");
  }
  page.add("</div>\n");
  if (!left_out.empty())
    page.add(fmt::format("<p>Omitted, to keep this page below 5 MB: {}.</p>\n",
                         html_text(fmt::format("{}", fmt::join(left_out, ", ")))));
}

// --- runs ---

// Returns the names of the folders, or their paths if two have the same name.
std::vector<std::string> names_of(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code unseen;
    names.push_back(fs::weakly_canonical(folder, unseen).filename().string());
  }
  const std::set<std::string> unique(names.begin(), names.end());
  return unique.size() == names.size() && !unique.contains("") ? names : folders;
}

std::string notes_of(const std::vector<RecordedRun>& runs) {
  std::string items;
  for (const RecordedRun& recorded : runs)
    for (const std::string& note : recorded.notes) items += "<li>" + html_text(note) + "</li>\n";
  if (items.empty()) return "";
  return "<h2>Not shown</h2>\n<ul>\n" + items + "</ul>\n";
}

}  // namespace

ReportSection curves_of(std::vector<Curve> curves) {
  const std::size_t most =
      std::clamp<std::size_t>(30'000 / std::max<std::size_t>(1, curves.size()), 50, 1000);
  ReportSection section{.script = "curves", .data = {{"charts", JsonValue::array()}}};
  sort_by_interest(curves);
  const bool thinned = std::ranges::any_of(
      curves, [&](auto& one) { return one.rows_a_point > 1 || one.points.size() > most; });
  if (thinned)
    section.caption = "Long curves are drawn by fewer points: each is the mean of several.";
  for (std::size_t i = 0; i < curves.size(); ++i) {
    Curve& curve = curves[i];
    thin_out(curve, most);
    if (i == 0 || curves[i - 1].metric != curve.metric)
      section.data["charts"].push_back(
          {{"metric", printable(curve.metric)}, {"lines", JsonValue::array()}});
    JsonValue points = JsonValue::array();
    for (const auto& [step, low, value, high] : curve.points)
      points.push_back(curve.seeds > 1 ? JsonValue{step, low, value, high}
                                       : JsonValue{step, value});
    section.data["charts"].back()["lines"].push_back({{"run", printable(curve.run)},
                                                      {"split", printable(curve.split)},
                                                      {"band", curve.seeds > 1},
                                                      {"seeds", curve.seeds},
                                                      {"points", points}});
  }
  return section;
}

ReportSection section_of(const TablePanel& table) {
  return {.title = table.title,
          .caption = table.caption,
          .fallback = html_table(table.rows, {.shares = table.shares})};
}

std::string report_of(const std::vector<std::string>& paths, ReportFindings* findings) {
  const std::vector<std::string> folders = different_folders(paths), names = names_of(folders);
  std::vector<RecordedRun> runs;
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(read_recorded_seeds(folders[i]));
    runs.back().name = names[i];
    for (Curve curve : runs.back().curves) {
      curve.run = names[i];
      curves.push_back(std::move(curve));
    }
  }
  const std::string title = names.size() > 3 ? fmt::format("{} runs", names.size())
                                             : fmt::format("{}", fmt::join(names, ", "));
  std::string facts;
  for (const RecordedRun& recorded : runs)
    facts += runs.size() == 1
                 ? facts_of(recorded)
                 : html_details(recorded.name, origin_of(recorded) + facts_of(recorded));
  const std::string drawn = curves.empty() ? "<p>Nothing was measured yet.</p>\n" : "";

  Page page(title + " · Tapestry");
  page.add(fmt::format("<header><h1>{}</h1>\n", html_text(title)));
  if (runs.size() == 1) page.add(lead_of(runs.front()));
  page.add(
      "<nav><a href=\"#learned\">Model</a> <a href=\"#curves\">Curves</a> "
      "<a href=\"#was\">Training</a></nav></header>\n<main>\n");
  std::string outcomes;
  if (runs.size() > 1)
    if_possible(runs.front(), [&] { outcomes = outcomes_of(read_groups(folders)); });
  page.add("<div class=\"columns\"><div>\n" + overview_of(runs) + outcomes + "</div>\n<div>\n");
  page.add(runs.size() > 1 ? "<h3>Differences of the configs</h3>\n" + differences_of(runs)
                           : origin_of(runs.front()));
  page.add("</div></div>\n");
  const ReportSection curve_part = curves_of(std::move(curves));
  const std::size_t others = page.body().size() + facts.size() + html_of(curve_part).size();
  add_models(page, runs, most_bytes - std::min(most_bytes, others));
  for (const RecordedRun& recorded : runs) {
    if (!findings) break;
    if (!recorded.data.splits.empty()) findings->compared[recorded.folder] = recorded.data;
    if (!recorded.not_loaded.empty()) findings->not_loaded.push_back(recorded.not_loaded);
  }
  page.add("<h2 id=\"curves\">Curves</h2>\n" + drawn);
  if (drawn.empty()) page.add(curve_part);
  page.add("<h2 id=\"was\">Training</h2>\n" + facts);
  page.add(notes_of(runs) + "</main>\n");
  return page.html();
}

}  // namespace tapestry
