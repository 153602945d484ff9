#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/labeled_texts.hpp"

namespace tapestry {

struct MatchReportOptions {
  std::int64_t examples = 10'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// Returns sentences on a match of two of three teams, such as "In the final, red lost to blue 2 to
// 1 with ten players.", and the winner as the class of each. A sentence has the names of winner and
// loser, and who won follows from the verb and the order of the names: the words without their
// order exclude only the third team. Example i depends only on the seed and i; the two splits share
// no sentence, whatever their seeds. Throws OptionError of "examples" below 1.
LabeledTexts make_match_reports(const MatchReportOptions& options);

std::vector<std::string> match_report_classes();  // returns "blue", "green", "red"

}  // namespace tapestry
