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
struct PagePart {
  std::string script{};  // "latent", for parts.latent of page/latent.js
  std::string title{}, caption{};
  JsonValue data{};
  std::string fallback{};  // HTML
};

PagePart part_of(const ReadExamples& read);
PagePart part_of(const LatentSpace& space);
PagePart part_of(const Translations& pairs);
PagePart part_of(const ForecastWindows& windows);
PagePart part_of(const PlacedGraphs& graphs);

// What a model made, by step, of a training of so many; 0: not known. The last may be pictures.
struct ShownSample {
  std::int64_t step = 0;
  std::string text{};
  std::optional<PictureGrid> pictures{};
};
PagePart part_of(const std::vector<ShownSample>& samples, std::int64_t steps);

// Of several memories, each beside the name of its run.
PagePart part_of(const std::vector<std::pair<std::string, AgesRemembered>>& ladder);

}  // namespace tapestry
