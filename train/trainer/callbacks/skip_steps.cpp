#include <cmath>

#include "autograd/counted.hpp"
#include "autograd/tape.hpp"
#include "train/config/keys.hpp"
#include "train/measure/statistics.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/explanation.hpp"

namespace tapestry {
namespace {

double without_sign_of_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

bool compares_norms(const Config& config) {
  return config[key::max_bad_steps] > 0 && config[key::bad_step_factor] > 0;
}

}  // namespace

std::string fault_of_step(double loss, double norm, const Config& config,
                          const TrainingState::SkippedSteps& state) {
  if (!std::isfinite(loss)) return fmt::format("the loss is {}", without_sign_of_nan(loss));
  if (!std::isfinite(norm))
    return fmt::format("the gradient norm is {}", without_sign_of_nan(norm));
  if (!compares_norms(config) || state.norms.size() < norms_compared) return "";
  const double usual = median_of(state.norms), factor = config[key::bad_step_factor];
  if (norm <= factor * usual) return "";
  return fmt::format(
      "the gradient norm is {:.4g}, above {} times the median of the last {}, {:.4g}", norm, factor,
      norms_compared, usual);
}

void remember_norm(double norm, const Config& config, TrainingState::SkippedSteps& state) {
  if (!compares_norms(config)) return;
  std::vector<double>& norms = state.norms;
  norms.push_back(norm);
  if (norms.size() > norms_compared) norms.erase(norms.begin(), norms.end() - norms_compared);
}

namespace {

class SkippedSteps final : public Callback {
 public:
  SkippedSteps(const Config& config, TrainingState& state, Ranks& ranks, Log log)
      : config_(config),
        training_(state),
        state_(state.skipped),
        ranks_(ranks),
        log_(std::move(log)) {}

  bool accepts(const ComputedStep& computed) override {
    const std::string fault =
        fault_of_step(computed.averages.at("loss").value(), computed.clip.norm, config_, state_);
    if (!fault.empty()) skip(computed, fault);
    return fault.empty();
  }
  void on_step_end(const ComputedStep& computed, bool moved) override {
    if (moved) remember_norm(computed.clip.norm, config_, state_);
  }
  void on_end() override {
    if (state_.count > 0)
      log_(fmt::format("skipped: {} of {} ({})\n", state_.count, counted(training_.step, "step"),
                       key::max_bad_steps.name));
  }

 private:
  // Counts a skipped step. Throws std::runtime_error with an explanation if no more steps may be
  // skipped.
  void skip(const ComputedStep& computed, const std::string& fault) {
    const std::int64_t most = config_[key::max_bad_steps];
    if (++state_.count <= most)
      return log_(fmt::format("step {}: skipped: {} (skipped step {} of at most {})\n",
                              computed.inputs.step + 1, fault, state_.count, most));
    const std::string explanation = explain_step(computed.inputs, ranks_);
    const std::string excess =
        most == 0 ? ""
                  : fmt::format(" after {} ({})", counted(state_.count - 1, "skipped step"),
                                key::max_bad_steps.name);
    ranks_.found_by_all();
    throw NonFiniteError(fmt::format("{}{}: {}", fault, excess, explanation));
  }

  const Config& config_;
  const TrainingState& training_;
  TrainingState::SkippedSteps& state_;
  Ranks& ranks_;
  Log log_;
};

}  // namespace

std::unique_ptr<Callback> skip_steps(const Config& config, TrainingState& state, Ranks& ranks,
                                     Log log) {
  return std::make_unique<SkippedSteps>(config, state, ranks, std::move(log));
}

}  // namespace tapestry
