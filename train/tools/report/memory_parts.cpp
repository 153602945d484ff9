#include <fmt/format.h>

#include <cmath>
#include <set>

#include "data/text/text.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page_part.hpp"
#include "train/tools/report/plot.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Ladder = std::vector<std::pair<std::string, AgesRemembered>>;

// Of the questions about items of ages [begin, end); empty where there are none.
std::string share_of(const AgesRemembered& remembered, std::size_t begin, std::size_t end) {
  double right = 0, asked = 0;
  for (std::size_t age = begin; age < end; ++age) {
    const auto questions = static_cast<double>(remembered.asked[age]);
    right += remembered.shares[age] * questions;
    asked += questions;
  }
  return asked == 0 ? "" : fmt::format("{:.3f}", right / asked);
}

std::vector<double> chances_of(const Ladder& ladder) {
  std::set<double> different;
  for (const auto& [run, remembered] : ladder) different.insert(remembered.chance);
  return {different.begin(), different.end()};
}

}  // namespace

PagePart part_of(const Ladder& ladder) {
  PagePart part{.script = "ages",
                .title = ladder.size() > 1 ? "The ladder: what each memory remembers"
                                           : "What it remembers, by age",
                .caption =
                    "It reads items such as “e1”, which says that e has the value 1, and is then "
                    "asked “e?”: the share of held-back questions that it answers right, by "
                    "how many items passed since."};
  part.data = {{"title", "Answered right, by age"},
               {"x", "items that passed since"},
               {"y", "share answered right"},
               {"chances", chances_of(ladder)},
               {"lines", Json::array()}};
  std::vector<PlotLine> lines;
  std::vector<std::vector<std::string>> rows = {{"run", "the last quarter", "the first quarter"}};
  for (const auto& [run, remembered] : ladder) {
    PlotLine line{.name = run};
    Json points = Json::array();
    const std::size_t ages = remembered.shares.size(), quarter = ages / 4;
    for (std::size_t age = 0; age < ages; ++age) {
      if (remembered.asked[age] == 0) continue;
      const double share = remembered.shares[age];
      points.push_back({age, std::round(share * 1e4) / 1e4});
      line.points.push_back({static_cast<double>(age), share, share, share});
    }
    part.data["lines"].push_back({{"run", printable(run)}, {"points", points}});
    lines.push_back(line);
    rows.push_back(
        {run, share_of(remembered, 0, quarter), share_of(remembered, ages - quarter, ages)});
  }
  part.fallback = html_table(rows) + svg_lines(part.title, "items that passed since", lines);
  return part;
}

}  // namespace tapestry
