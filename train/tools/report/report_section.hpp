#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/plot/figure.hpp"

namespace tapestry {

// A part of the page: the script that shows it, the data that this gets, and what stands there
// without scripts.
struct ReportSection {
  std::string script{};  // "latent", for parts.latent of page/latent.js
  std::string title{}, caption{};
  JsonValue data{};
  std::string fallback{};  // HTML
};

ReportSection section_of(const ReadExamples& read);
ReportSection section_of(const LatentSpace& space);
ReportSection section_of(const Translations& pairs);
ReportSection section_of(const ForecastWindows& windows);
ReportSection section_of(const PlacedGraphs& graphs);

// What a model made, by step, of a training of so many; 0: not known. The last may be pictures.
struct ShownSample {
  std::int64_t step = 0;
  std::string text{};
  std::optional<PictureGrid> pictures{};
};
ReportSection section_of(const std::vector<ShownSample>& samples, std::int64_t steps);

// Of several memories, each beside the name of its run.
ReportSection section_of(const std::vector<std::pair<std::string, RecallByAge>>& series);

}  // namespace tapestry
