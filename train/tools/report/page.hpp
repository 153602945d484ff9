#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/report/recorded_run.hpp"

namespace tapestry {

// What report_of() found, apart from the page.
struct ReportFindings {
  // Comparisons of the data that models were evaluated on, by the folders of their runs.
  std::map<std::string, ComparedData> compared{};
  // Why models are not on the page whose task or plug-in is not loaded, a message for each.
  std::vector<std::string> not_loaded{};
};

// Returns an HTML page about one run, or about several runs side by side. A folder of seeds counts
// as one run. Adds to `findings`, if it is not null. Throws InputError as read_recorded_run does.
std::string report_of(const std::vector<std::string>& runs, ReportFindings* findings = nullptr);

// --- sections: scripts and their data ---

// A section of the page: a script, its data, and what browsers without scripts show.
struct ReportSection {
  std::string script{};  // "latent": parts.latent of page/latent.js; empty: no script
  std::string title{}, caption{};
  JsonValue data{};
  std::string fallback{};  // HTML
};

ReportSection section_of(const ReadExamples& read);
ReportSection section_of(const LatentSpace& space);
ReportSection section_of(const Translations& pairs);
ReportSection section_of(const ForecastWindows& windows);
ReportSection section_of(const PlacedGraphs& graphs);
ReportSection section_of(const TablePanel& table);
ReportSection section_of(const LabeledPictures& pictures);

// Returns the section of samples of a training of `steps` steps (0: unknown), at least one. The
// last sample may be a grid of pictures.
ReportSection section_of(const SamplesByStep& samples, std::int64_t steps);

// Returns the section of the recall of several memories, each with the name of its run.
ReportSection section_of(const std::vector<std::pair<std::string, RecallByAge>>& series);

// Returns the section of curves, one chart per metric; Curve::run names the runs. The points are
// thinned out so that all curves together have about 30,000.
ReportSection curves_of(std::vector<Curve> curves);

// --- HTML about recorded runs ---

// Returns the state of a training: "finished, 3000 steps", "is being trained, step 120 of 400".
std::string status_of(const RecordedRun& recorded);

// Returns HTML paragraphs on the model, the state of the training, and the metric of [expected]
// beside its expected value.
std::string lead_of(const RecordedRun& recorded);

// Returns a table of the metrics of runs with their meanings; for several seeds the mean ± standard
// deviation.
std::string overview_of(const std::vector<RecordedRun>& runs);

// Returns the differences of the metrics between groups of runs and the first group, with the
// outcomes of `tapestry compare`; empty if there is one group, or if no group has several seeds.
std::string outcomes_of(const std::vector<RunGroup>& groups);

// Returns a table of the settings in which runs differ, except for run.name and [expected], or a
// sentence that there are none.
std::string differences_of(const std::vector<RecordedRun>& runs);

// Returns a table of the data, version, processor and threads.
std::string origin_of(const RecordedRun& recorded);

// Returns the commands that trained a run and repeat it, its parameters by layer, config, sessions
// and profile.
std::string facts_of(const RecordedRun& recorded);

// --- the page ---

// A file of page/, or of dygraphs, which is built into the library.
struct PageAsset {
  std::string text;
  std::string sha256;  // in hexadecimal digits
};
const std::map<std::string, PageAsset>& page_assets();  // keyed by names such as "latent.js"

// A page to which HTML and sections are added, with only the scripts that the sections need.
class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void add(const std::string& html) { body_ += html; }
  void add(const ReportSection& section);
  const std::string& body() const { return body_; }

  // Returns the document, which loads no other file: its Content-Security-Policy allows only its
  // own scripts and pictures.
  std::string html() const;

 private:
  std::string title_, body_;
  std::vector<std::string> scripts_{};  // names of the sections' scripts
  int parts_ = 0;
};

}  // namespace tapestry
