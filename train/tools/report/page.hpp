#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tools/report/recorded_run.hpp"

namespace tapestry {

// Returns an HTML page that shows runs, one after the other, or several side by side. Throws
// InputError as read_recorded_run does.
std::string report_of(const std::vector<std::string>& runs);

// --- sections: scripts and what they show ---

// A part of the page: a script, its data, and HTML for browsers without scripts.
struct ReportSection {
  std::string script{};  // "latent": parts.latent of page/latent.js; empty: `fallback` is all
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

// Samples of a training of `steps` steps (0: unknown). The last may be pictures.
ReportSection section_of(const SamplesByStep& samples, std::int64_t steps);

// Recall of several memories, each with the name of its run.
ReportSection section_of(const std::vector<std::pair<std::string, RecallByAge>>& series);

// --- HTML about recorded runs ---

// Returns "finished, 3000 steps", "is being trained, step 120 of 400".
std::string status_of(const RecordedRun& recorded);

// Returns what the model is, the state of its training, and the metric that was reached beside the
// one that the config expects.
std::string lead_of(const RecordedRun& recorded);

// Returns the metrics of runs with their meanings; of several seeds the mean ± standard deviation.
std::string overview_of(const std::vector<RecordedRun>& runs);

// Returns how the metrics of groups of runs differ from those of the first group, with the outcomes
// of `tapestry compare`; empty if there is one group, or no group has several seeds. Throws
// InputError as read_groups does.
std::string outcomes_of(const std::vector<std::string>& folders);

// Returns the settings in which runs differ, without their names.
std::string differences_of(const std::vector<RecordedRun>& runs);

// Returns a table of the data, version, processor and threads.
std::string origin_of(const RecordedRun& recorded);

// Returns the commands that began a run and make it again, its parameters by layer, config,
// sessions and profile.
std::string facts_of(const RecordedRun& recorded);

// --- the page ---

// A file of page/, or dygraphs', which the library holds.
struct PageAsset {
  std::string text;
  std::string sha256;  // in hexadecimal digits
};
const std::map<std::string, PageAsset>& page_assets();  // by names such as "latent.js"

// A page to which HTML and sections are added, with only the scripts that these need.
class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void add(const std::string& html) { body_ += html; }
  void add(const ReportSection& section);
  const std::string& body() const { return body_; }

  // Returns the document, which loads nothing: its policy allows its own scripts and pictures
  // alone.
  std::string html() const;

 private:
  std::string title_, body_;
  std::vector<std::string> scripts_{};  // of the parts
  int parts_ = 0;
};

}  // namespace tapestry
