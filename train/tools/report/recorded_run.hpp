#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"
#include "train/tools/report/curve.hpp"

namespace tapestry {

// What a run's folder records, as far as it can be read. The notes say what cannot.
struct RecordedRun {
  std::string name{};    // on the page
  std::string model{};   // "A transformer language model: 4 layers × 128, 201.8 k parameters"
  std::string folder{};  // as it was given; that of the first seed if there are several
  std::vector<std::string> notes{};
  std::string config_text{};  // config.toml
  ConfigSettings settings{};  // "model.width" -> "128"
  std::vector<Curve> curves{};
  // The last evaluation, that with the least loss, and the test.
  std::optional<MetricsLine> validation{}, best_validation{}, test{};
  std::int64_t last_step = 0;
  double elapsed_s = 0;
  bool is_trained = false;  // by a process, now
  std::vector<Session> sessions{};
  std::string profile{};
  std::vector<SafetensorsEntry> parameters{};  // of the model that is used: the best, or the last
  std::int64_t parameter_count = 0;            // numbers in them
  std::optional<TrainingState> state{};
  std::string backends{};
  std::vector<RecordedRun> seeds{};  // the runs, if this one stands for several seeds

  std::int64_t steps() const;  // of the config; 0: unknown
};

// Throws InputError as expect_run does, for a folder without metrics and checkpoints.
RecordedRun read_recorded_run(const std::string& folder);

// Adds the message of what `read` throws to the notes.
template <class Read>
void if_possible(RecordedRun& recorded, const Read& read) try {
  read();
} catch (const ForeignModel&) {
  throw;
} catch (const std::exception& error) {
  const std::string why = error.what();
  const bool names_it = why.find(recorded.folder) != std::string::npos;
  recorded.notes.push_back(names_it ? why : recorded.folder + ": " + why);
}

// Returns the panels of the run's task, which need its data, and samples by step.
using SamplesByStep = std::vector<std::pair<std::int64_t, Sample>>;
struct ShownModel {
  ReportPanels panels{};
  SamplesByStep samples{};
};
ShownModel inspect_model(RecordedRun& recorded);

// Returns one run for several seeds: its curves are bands, and its model is that of the first.
RecordedRun joined(std::vector<RecordedRun> seeds);

}  // namespace tapestry
