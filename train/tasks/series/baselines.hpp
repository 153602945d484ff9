#pragma once

#include <string>
#include <vector>

#include "data/series/series.hpp"

namespace tapestry {

// The mean squared and absolute errors of a forecast without a trained model.
struct BaselineErrors {
  std::string name{};
  double mse = 0, mae = 0;
};

// Returns the errors over all windows and targets of `judged`, whose values have the mean 0 over
// the training rows: of this mean, of the last value, of the last season of `season` rows
// (0: left out; otherwise at most the length of a window), and of one linear map from the values of
// a window to its targets, shared by all targets. The map is fitted to windows of `training` by
// least squares (Zeng et al. 2022, arXiv 2205.13504, NLinear): at most 4 million values, evenly
// spaced. It is left out if `training` is null.
std::vector<BaselineErrors> baseline_errors(const SeriesDataset* training,
                                            const SeriesDataset& judged, std::int64_t season);

}  // namespace tapestry
