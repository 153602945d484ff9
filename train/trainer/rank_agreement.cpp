#include "train/trainer/rank_agreement.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "train/run/version.hpp"

namespace tapestry {
namespace {

// Everything that decides the bits of a training, by names for people.
std::vector<std::pair<std::string, std::string>> what_decides(const Config& config,
                                                              const TrainingState& state) {
  return {{"version", version()},
          {"processor or engine", backends()},
          {"program", library_checksum()},
          {"config", config.toml()},
          {"data", fmt::format("{} examples, {}", state.examples,
                               state.data.empty() ? "drawn" : "checksum " + state.data)},
          {"checkpoint", fmt::format("step {}", state.step)}};
}

// Of two texts' first lines that differ.
std::string first_difference(const std::string& own, const std::string& other) {
  std::istringstream mine(own), theirs(other);
  std::string one, two;
  while (std::getline(mine, one) && std::getline(theirs, two) && one == two) continue;
  return fmt::format("{}, not {}", one, two);
}

}  // namespace

void expect_same_everywhere(const Config& config, const TrainingState& state, Ranks& ranks) {
  if (ranks.alone()) return;
  const auto facts = what_decides(config, state);
  std::vector<std::string> values;
  for (const auto& [name, value] : facts) values.push_back(value);
  const auto all = ranks.gather(std::move(values), "the comparison of the ranks");
  for (int rank = 1; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const std::string &wanted = all[0][i], &found = all[rank].at(i);
      if (found == wanted) continue;
      ranks.found_by_all();
      throw InputError(fmt::format("{} has another {} than {}: {}; all ranks need the same",
                                   ranks.name(rank), facts[i].first, ranks.name(0),
                                   first_difference(found, wanted)));
    }
}

}  // namespace tapestry
