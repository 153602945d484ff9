#include "train/tools/search/tried_before.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <vector>

#include "autograd/checksum.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/session.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/search/ledger.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// The runs of a candidate in a ledger that have its full budget and chose the best candidate.
struct TriedCandidate {
  std::string effective{};
  std::vector<double> losses{};  // of those that did not fail
};

// Returns the candidates by name. Throws InputError if the ledger cannot be read.
std::map<std::string, TriedCandidate> candidates_in(const Run& experiment) {
  std::map<std::string, TriedCandidate> candidates;
  Ledger ledger(experiment, nullptr);
  while (const auto line = ledger.recorded(JsonValue::object())) {
    if (line->value("decision", JsonValue()) == JsonValue("best")) break;  // the final test follows
    const JsonValue name = line->value("run", JsonValue());
    if (!name.is_string() || !line->contains("effective_xxh3")) continue;
    const SearchRun run = ledger.recorded_run();
    const std::string path = name.get<std::string>();
    TriedCandidate& tried = candidates[path.substr(0, path.find('/'))];
    tried.effective = run.effective;
    if (run.failure.empty()) tried.losses.push_back(run.loss);
  }
  return candidates;
}

// Returns the folders beside that of an experiment that have a ledger, sorted by name.
std::set<std::string> experiments_beside(const Run& experiment) {
  std::set<std::string> folders;
  std::error_code unseen;
  const fs::path parent = fs::path(experiment.folder()).parent_path();
  for (fs::directory_iterator entry(parent.empty() ? "." : parent, unseen), end;
       !unseen && entry != end; entry.increment(unseen)) {
    const std::string folder = (parent / entry->path().filename()).string();
    std::error_code missing;
    if (is_there(Run(folder).ledger()) && !fs::equivalent(folder, experiment.folder(), missing))
      folders.insert(folder);
  }
  return folders;
}

}  // namespace

std::string effective_checksum(const Config& config, const TrainingState& initial) {
  ConfigSettings effective = config.settings_that_count();
  if (!initial.data.empty()) effective[key::data_path.name] = initial.data;
  effective.insert(initial.splits.begin(), initial.splits.end());
  if (const std::string& from = config[key::from]; !from.empty())
    effective[key::from.name] = combined(parameter_checksums(load_trained_metadata(from)));
  if (const double minutes = search_settings.of(config).minutes; minutes > 0)
    effective[search_settings["minutes"].name] = fmt::format("{}", minutes);
  Checksum sum;
  for (const auto& [name, value] : effective)
    for (const std::string& text : {name, value})
      sum.add_list(std::vector<char>(text.begin(), text.end()));
  return sum.hex();
}

std::map<std::string, std::string> results_beside(const Run& experiment) {
  std::map<std::string, std::string> results;
  for (const std::string& folder : experiments_beside(experiment)) try {
      for (const auto& [name, tried] : candidates_in(Run(folder)))
        results.emplace(tried.effective,
                        printable_beginning(folder + "/" + name) +
                            (tried.losses.empty()
                                 ? ", failed"
                                 : fmt::format(", loss {:.4f}", estimate_of(tried.losses).mean)));
    } catch (const InputError& error) {
      complain(fmt::format("{}; its candidates are not compared", error.what()));
    }
  return results;
}

}  // namespace tapestry
