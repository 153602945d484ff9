#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/run/run.hpp"
#include "train/run/session.hpp"
#include "train/tools/report/curve.hpp"
#include "train/trainer/callbacks/inspection_budget.hpp"

namespace tapestry {

// What a run's folder tells, as far as it can be read: what cannot is among the notes.
struct RecordedRun {
  std::string name{};    // that the page gives it
  std::string folder{};  // as it was given; of seeds the first one's
  std::vector<std::string> notes{};
  std::string config_text{};  // config.toml
  ConfigSettings settings{};  // "model.width" -> "128"
  std::vector<Curve> curves{};
  // Lines of metrics, or null: the last evaluation, that of the least loss, and the test.
  JsonValue validation{}, best_validation{}, test{};
  std::int64_t last_step = 0;
  double elapsed_s = 0;
  bool is_trained = false;  // by a process, now
  std::vector<Session> sessions{};
  std::string profile{};
  struct Tensor {
    std::string name{};
    std::string shape{};
    std::int64_t size = 0;
  };
  std::vector<Tensor> parameters{};  // of the model that is used: the best, or the last
  std::optional<TrainingState> state{};
  std::string backends{};
  std::vector<RecordedRun> seeds{};  // of runs that differ in their seed, each one's

  std::int64_t count_parameters() const;
  std::int64_t steps() const;  // that were asked for; 0: not known
};

// InputError where the path is no run's folder, or holds neither metrics nor a model.
RecordedRun read_recorded_run(const std::string& folder);

// Adds to the notes what fails: why something cannot be shown.
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

// What its model shows: views of the task, on data that must be there.
using SamplesByStep = std::vector<std::pair<std::int64_t, Sample>>;
struct ShownModel {
  ReportPanels panels{};
  SamplesByStep samples{};
};
ShownModel inspect_model(RecordedRun& recorded);

// One story of runs that differ in their seed: curves become bands, and the model is the first's.
RecordedRun joined(std::vector<RecordedRun> seeds);

}  // namespace tapestry
