#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "data/text/printable.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

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

}  // namespace

ReportSection section_of(const MemorySeries& series) {
  ReportSection section{
      .script = "chart",
      .title = series.size() > 1 ? "Recall by age, of all memories" : "Recall by age",
      .caption =
          "The model reads items such as “e1”, which gives e the value 1, and is then asked “e?”. "
          "The share of right answers in the validation split, by the number of items since."};
  JsonValue lines = JsonValue::array();
  std::vector<std::vector<std::string>> rows = {{"run", "the last quarter", "the first quarter"}};
  std::map<double, std::size_t> chances;  // keyed by the chance: the number of ages
  for (const auto& [run, remembered] : series) {
    JsonValue points = JsonValue::array();
    const std::size_t ages = remembered.shares.size(), quarter = ages / 4;
    for (std::size_t age = 0; age < ages; ++age)
      if (remembered.asked[age] > 0)
        points.push_back({age, std::round(remembered.shares[age] * 1e4) / 1e4});
    lines.push_back({{"name", printable(run)}, {"color", lines.size()}, {"points", points}});
    std::size_t& most = chances[remembered.chance];
    most = std::max(most, ages);
    rows.push_back(
        {run, share_of(remembered, 0, quarter), share_of(remembered, ages - quarter, ages)});
  }
  for (const auto& [chance, ages] : chances)
    lines.push_back({{"name", "chance (guessing)"},
                     {"color", nullptr},
                     {"dashed", true},
                     {"points", {{0, chance}, {ages - 1, chance}}}});
  section.data = {{"title", "Answered right, by age"},
                  {"x", "items since"},
                  {"y", "share answered right"},
                  {"lines", lines}};
  section.fallback = html_table(rows);
  return section;
}

}  // namespace tapestry
