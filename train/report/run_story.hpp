#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/exhibits.hpp"
#include "train/loop/sample_recorder.hpp"
#include "train/report/plot.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/session.hpp"

namespace tapestry {

// A figure of a split over the steps of a training, or of several that differ in their seed: then
// the points have the mean, the lowest and the highest.
struct Curve {
  std::string metric{}, split{};
  std::string run{};
  std::int64_t seeds = 1;
  std::vector<PlotPoint> points{};
};

// What a run's folder tells, as far as it can be read: what cannot is among the notes.
struct RunStory {
  std::string name{};  // as it was given
  std::vector<std::string> notes{};
  std::string config_text{};                      // config.toml
  std::map<std::string, std::string> settings{};  // "model.width" -> "128"
  std::vector<Curve> curves{};                    // the loss first
  nlohmann::ordered_json validation{}, test{};    // the last of these lines, or null
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
  std::string engines{};

  std::int64_t count_parameters() const;
  std::int64_t steps() const;  // that were asked for; 0: not known
};

// InputError where the path is no run's folder, or holds neither metrics nor a model.
RunStory read_story(const std::string& folder);

// What its model shows: views of the task, on data that must be there. Reasons why something
// cannot be shown go to the story's notes.
struct ModelStory {
  Exhibits exhibits{};
  std::vector<std::pair<std::int64_t, Sample>> samples{};  // by step
};
ModelStory look_into(RunStory& story);

// One story of runs that differ in their seed, told by the first: curves become bands.
RunStory joined(const std::string& name, std::vector<RunStory> seeds);

// At most so many points, of which each stands for as many neighbours.
void thin_out(Curve& curve, std::size_t most);

}  // namespace tapestry
