#include "train/trainer/callbacks/skipped_steps.hpp"

#include <cmath>

#include "train/config/keys.hpp"
#include "train/measure/statistics.hpp"

namespace tapestry {
namespace {

double without_sign_of_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

bool compares_norms(const Config& config) {
  return config[key::max_bad_steps] > 0 && config[key::bad_step_factor] > 0;
}

}  // namespace

std::string fault_of_step(double loss, double norm, const Config& config,
                          const TrainingState& state) {
  if (!std::isfinite(loss) || !std::isfinite(norm))
    return fmt::format("the loss is {} and the gradient's norm {}", without_sign_of_nan(loss),
                       without_sign_of_nan(norm));
  if (!compares_norms(config) || state.gradient_norms.size() < norms_compared) return "";
  const double usual = median_of(state.gradient_norms), factor = config[key::bad_step_factor];
  if (norm <= factor * usual) return "";
  return fmt::format(
      "the gradient's norm is {:.4g}, above {} times {:.4g}, the median of {} before", norm, factor,
      usual, norms_compared);
}

void remember_norm(double norm, const Config& config, TrainingState& state) {
  if (!compares_norms(config)) return;
  std::vector<double>& norms = state.gradient_norms;
  norms.push_back(norm);
  if (norms.size() > norms_compared) norms.erase(norms.begin(), norms.end() - norms_compared);
}

}  // namespace tapestry
