#include <fmt/format.h>

#include <cmath>
#include <set>

#include "data/text/printable.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using MemorySeries = std::vector<std::pair<std::string, RecallByAge>>;

// Returns the fraction of right answers for ages [begin, end); empty if there are none.
std::string share_of(const RecallByAge& remembered, std::size_t begin, std::size_t end) {
  double right = 0, asked = 0;
  for (std::size_t age = begin; age < end; ++age) {
    const auto questions = static_cast<double>(remembered.asked[age]);
    right += remembered.shares[age] * questions;
    asked += questions;
  }
  return asked == 0 ? "" : fmt::format("{:.3f}", right / asked);
}

std::vector<double> chances_of(const MemorySeries& series) {
  std::set<double> different;
  for (const auto& [run, remembered] : series) different.insert(remembered.chance);
  return {different.begin(), different.end()};
}

}  // namespace

ReportSection section_of(const MemorySeries& series) {
  ReportSection section{
      .script = "ages",
      .title = series.size() > 1 ? "Recall by age, of all memories" : "Recall by age",
      .caption =
          "The model reads items such as “e1”, which gives e the value 1, and is then asked “e?”. "
          "The share of right answers in the validation split, by the number of items since."};
  section.data = {{"title", "Answered right, by age"},
                  {"x", "items since"},
                  {"y", "share answered right"},
                  {"chances", chances_of(series)},
                  {"lines", Json::array()}};
  std::vector<PlotLine> lines;
  std::vector<std::vector<std::string>> rows = {{"run", "the last quarter", "the first quarter"}};
  for (const auto& [run, remembered] : series) {
    PlotLine line{.name = run};
    Json points = Json::array();
    const std::size_t ages = remembered.shares.size(), quarter = ages / 4;
    for (std::size_t age = 0; age < ages; ++age) {
      if (remembered.asked[age] == 0) continue;
      const double share = remembered.shares[age];
      points.push_back({age, std::round(share * 1e4) / 1e4});
      line.points.push_back({static_cast<double>(age), share, share, share});
    }
    section.data["lines"].push_back({{"run", printable(run)}, {"points", points}});
    lines.push_back(line);
    rows.push_back(
        {run, share_of(remembered, 0, quarter), share_of(remembered, ages - quarter, ages)});
  }
  section.fallback = html_table(rows) + svg_lines(section.title, "items since", lines);
  return section;
}

}  // namespace tapestry
