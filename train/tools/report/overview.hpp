#pragma once

#include <string>
#include <vector>

#include "train/tools/report/recorded_run.hpp"

// The head of a report, as HTML: what runs are for, what they came to, and where they differ.
namespace tapestry {

// "finished, 3000 steps", "is being trained, step 120 of 400"
std::string status_of(const RecordedRun& recorded);

// What the task is, and the figure that the config expects beside the one that was reached.
std::string lead_of(const RecordedRun& recorded);

// Their figures and what these mean; of seeds the mean ± the deviation.
std::string overview_of(const std::vector<RecordedRun>& runs);

// The settings in which runs differ, but for their names.
std::string differences_of(const std::vector<RecordedRun>& runs);

}  // namespace tapestry
