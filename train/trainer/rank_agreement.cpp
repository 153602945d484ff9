#include "train/trainer/rank_agreement.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "train/distributed/packed.hpp"
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
  Packer packer;
  for (const auto& [name, value] : facts) packer.put(value);
  const std::vector<std::string> all = ranks.gather(packer.take(), "the comparison of the ranks");
  for (int rank = 1; rank < ranks.size(); ++rank) {
    Unpacker first(all[0]), other(all[rank]);
    for (const auto& [name, value] : facts) {
      const auto wanted = first.get<std::string>(), found = other.get<std::string>();
      if (found == wanted) continue;
      ranks.found_by_all();
      throw InputError(fmt::format("{} has another {} than {}: {}; all ranks need the same",
                                   ranks.name(rank), name, ranks.name(0),
                                   first_difference(found, wanted)));
    }
  }
}

}  // namespace tapestry
