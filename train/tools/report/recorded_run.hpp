#pragma once

#include <new>
#include <optional>
#include <string>
#include <vector>

#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"
#include "train/task.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/curve.hpp"
#include "train/trainer/compared_data.hpp"

namespace tapestry {

// The records of a run's folder, as far as they can be read. The notes say what cannot be read.
struct RecordedRun {
  std::string name{};    // name on the page
  std::string model{};   // "A transformer language model: 4 layers × 128, 201.8 k parameters"
  std::string folder{};  // path as given; of several seeds, that of the first
  std::vector<std::string> notes{};
  std::string not_loaded{};   // the message of a NotLoaded: the model cannot be shown
  std::string config_text{};  // text of config.toml
  ConfigSettings settings{};  // values by key: "model.width" -> "128"
  std::vector<Curve> curves{};
  // The last evaluation, the evaluation with the lowest loss, and that of the test split.
  std::optional<MetricsLine> validation{}, best_validation{}, test{};
  SplitBaselines baselines{};
  std::int64_t last_step = 0;
  double elapsed_s = 0;
  bool is_trained = false;  // whether a process trains it now
  std::vector<Session> sessions{};
  std::string profile{};
  // Parameters of the model that is used: the best, or else the last.
  std::vector<SafetensorsEntry> parameters{};
  std::int64_t parameter_count = 0;  // number of elements of these parameters
  std::optional<TrainingState> state{};
  std::string backends{};
  ComparedData data{};               // of the data that inspect_model() evaluated the model on
  std::vector<RecordedRun> seeds{};  // the runs, if this one represents several seeds

  std::int64_t steps() const;  // returns the steps of the config; 0: unknown
};

// Returns the records of a run. Throws InputError as expect_run does for a folder without metrics
// and checkpoints, and if metrics.jsonl or sessions.jsonl exists, but is not a readable file.
RecordedRun read_recorded_run(const std::string& folder);

// Calls `read`, and adds the message of its exception, if any, to the notes. ForeignModel,
// ModelTooLarge and std::bad_alloc are rethrown, because they are no fault of the run's files.
template <class Read>
void if_possible(RecordedRun& recorded, const Read& read) try {
  read();
} catch (const ForeignModel&) {
  throw;
} catch (const ModelTooLarge&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  if (dynamic_cast<const NotLoaded*>(&error)) recorded.not_loaded = error.what();
  const std::string why = error.what();
  const bool names_it = why.find(recorded.folder) != std::string::npos;
  recorded.notes.push_back(names_it ? why : recorded.folder + ": " + why);
}

// The samples of a training, with their steps.
using SamplesByStep = std::vector<std::pair<std::int64_t, Sample>>;
struct ShownModel {
  ReportPanels panels{};
  SamplesByStep samples{};
};
// Returns the panels and samples of a run's model, and compares the data that they show with those
// of the training. What cannot be read or computed is added to the notes. Throws ForeignModel,
// ModelTooLarge and std::bad_alloc.
ShownModel inspect_model(RecordedRun& recorded);

// Returns one run that represents several seeds: its curves are bands, and its model is that of the
// first.
RecordedRun joined(std::vector<RecordedRun> seeds);

// Returns the records of a run, or of a folder of seeds as one run. Throws as read_recorded_run.
RecordedRun read_recorded_seeds(const std::string& folder);

}  // namespace tapestry
