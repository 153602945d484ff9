#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"

// This check is the learning rate range test of Smith 2015, "Cyclical Learning Rates for Training
// Neural Networks" (arXiv 1506.01186), section 3.3, with a rate that grows by a constant factor per
// step, and a smoothed loss.
namespace tapestry {
namespace {

constexpr double lowest_rate = 1e-6, highest_rate = 10, lowest_advised = 1e-5;
constexpr double most_steps_swept = 105, fewest_steps_swept = 56, longest_sweep_s = 30;
constexpr std::int64_t slope_steps = 6;
constexpr std::int64_t steps_at_one_rate = 24, steps_averaged = 6, steps_of_warm_up = 8;
constexpr double memory = 0.8;      // decay of the moving average of the loss
constexpr double far_lower = 100;   // the rate is this much below the one that overfitted a batch
constexpr double far_larger = 100;  // the weights grew by this factor since the first step
constexpr double least_change = 1e-5;  // smallest relative change of the loss that counts
constexpr double lost = 0.25;          // fraction of the fall by which the loss rises again
constexpr double above_first =
    1.1;  // the weights are worse if the loss exceeds the first one by this factor
constexpr std::int64_t quiet_steps = 8;  // first steps, whose rates are too low to have an effect

struct Sweep {
  std::vector<double> rates{}, losses{}, smoothed{};
  double spacing = 0;       // distance between rates, in powers of ten
  double rises = HUGE_VAL;  // the lowest rate from which the loss rises, or is not finite
  double fastest = 0;       // the rate at the steepest fall; 0: the loss fell by noise only
  double first() const { return smoothed[quiet_steps - 1]; }
  double highest_at_first() const {
    return *std::max_element(losses.begin(), losses.begin() + quiet_steps);
  }
};

// Returns the power of ten by which the rate grows per step.
double spacing_of(const TrainingUnderTest& under_test) {
  const double steps = std::clamp(longest_sweep_s / std::max(1e-6, under_test.step_s()),
                                  fewest_steps_swept, most_steps_swept);
  return std::log10(highest_rate / lowest_rate) / std::floor(steps);
}

// Returns the largest distance of a batch's loss from the smoothed loss in `step` and the
// `quiet_steps` steps before.
double noise_before(const Sweep& sweep, std::int64_t step) {
  double noise = 0;
  for (std::int64_t i = std::max<std::int64_t>(0, step - quiet_steps); i <= step; ++i)
    noise = std::max(noise, std::abs(sweep.losses[i] - sweep.smoothed[i]));
  return noise;
}

// Sets `fastest` and `rises` of a sweep. Ignores a fall after the minimum, where the loss only
// recovers from too large a step.
void read_off(Sweep& sweep) {
  const auto least = std::min_element(sweep.smoothed.begin() + quiet_steps, sweep.smoothed.end()) -
                     sweep.smoothed.begin();
  const double low = sweep.smoothed[least], gained = sweep.first() - low;
  const double noise = noise_before(sweep, least);
  double steepest = 0;
  for (std::int64_t i = slope_steps; i <= least; ++i)
    if (const double fall = sweep.smoothed[i - slope_steps] - sweep.smoothed[i]; fall > steepest)
      steepest = fall, sweep.fastest = sweep.rates[i - slope_steps / 2];
  if (gained < noise) sweep.fastest = 0;
  for (std::int64_t i = std::ssize(sweep.smoothed) - 1; i > least; --i)
    if (sweep.smoothed[i] > low + std::max(lost * gained, 2 * noise)) sweep.rises = sweep.rates[i];
}

// Trains with a rising rate, until the loss rises clearly, and returns the losses. The smoothed
// loss is an exponential moving average with bias correction.
Sweep sweep(TrainingUnderTest& under_test) {
  TrialTraining training(under_test);
  Sweep found{.spacing = spacing_of(under_test)};
  double sum = 0, weight = 0;
  for (double rate = lowest_rate; rate < highest_rate; rate *= std::pow(10, found.spacing)) {
    const std::int64_t done = std::ssize(found.losses);
    const double loss = training.step(rate);
    if (!std::isfinite(loss)) {
      found.rises = rate;
      break;
    }
    sum = memory * sum + (1 - memory) * loss;
    weight = memory * weight + (1 - memory);
    found.rates.push_back(rate);
    found.losses.push_back(loss);
    found.smoothed.push_back(sum / weight);
    if (done >= quiet_steps && found.smoothed.back() > above_first * found.highest_at_first())
      break;
  }
  if (std::ssize(found.smoothed) > quiet_steps) read_off(found);
  return found;
}

// The result of a few steps with warm-up to one rate from the initial weights: the mean loss of the
// last steps, and the largest distance of a loss from this mean.
struct Outcome {
  double loss = 0, noise = 0;
  TrainingUnderTest::Growth growth{};  // the largest growth of a weight
};
Outcome outcome_of(TrainingUnderTest& under_test, double rate,
                   std::int64_t warm_up = steps_of_warm_up) {
  under_test.reset();
  TrialTraining training(under_test);
  std::vector<double> last;
  for (std::int64_t step = 0; step < steps_at_one_rate; ++step) {
    const double risen = std::min(1.0, (step + 1.0) / static_cast<double>(warm_up));
    const double loss = training.step(rate * risen);
    if (!std::isfinite(loss)) {
      last.assign(1, loss);
      break;
    }
    if (step >= steps_at_one_rate - steps_averaged) last.push_back(loss);
  }
  Outcome outcome{.growth = under_test.largest_growth()};
  for (const double loss : last) outcome.loss += loss / steps_averaged;
  for (const double loss : last)
    outcome.noise = std::max(outcome.noise, std::abs(loss - outcome.loss));
  return outcome;
}

// Returns whether the loss at a rate exceeds the loss at a hundredth of this rate by more than the
// noise and more than a tenth, so that the weights are worse than the initial ones.
bool is_worse(const Outcome& at_rate, const Outcome& below) {
  const double least = (above_first - 1) * std::abs(below.loss);
  return !(at_rate.loss <= below.loss + std::max({at_rate.noise, below.noise, least}));
}

// Returns the rate to suggest. The steepest fall is ignored if it is at a very low rate, because it
// then comes from the batches and not from the rate.
double advised_rate(const Sweep& sweep) {
  if (sweep.fastest >= lowest_advised) return std::min(sweep.fastest, sweep.rises / 3);
  return std::isfinite(sweep.rises) ? sweep.rises / 10 : usual_rate;
}

Line upright(const std::string& name, double rate, const std::vector<double>& between) {
  const auto [low, high] = std::ranges::minmax(between);
  return {.name = name, .first = std::log10(rate), .values = {low, high}, .spacing = 0};
}

Figure figure_of(const Sweep& sweep, double configured) {
  std::vector<Line> lines = {{.name = "smoothed loss",
                              .first = std::log10(lowest_rate),
                              .values = sweep.smoothed,
                              .spacing = sweep.spacing},
                             {.name = "loss of a batch",
                              .first = std::log10(lowest_rate),
                              .values = sweep.losses,
                              .spacing = sweep.spacing},
                             upright("configured", configured, sweep.smoothed)};
  if (std::isfinite(sweep.rises))
    lines.push_back(upright("rises from here on", sweep.rises, sweep.smoothed));
  return LineCharts{.charts = {{.title = "loss", .lines = std::move(lines)}},
                    .steps = "log₁₀ of the learning rate"};
}

std::string range_of(const Sweep& sweep) {
  const std::string falls = sweep.fastest > 0
                                ? fmt::format("falls fastest at {:.1e}", sweep.fastest)
                                : fmt::format("hardly falls in {} steps", sweep.losses.size());
  const std::string rises = std::isfinite(sweep.rises)
                                ? fmt::format("rises again from {:.1e} on", sweep.rises)
                                : fmt::format("does not rise up to {:.0f}", highest_rate);
  return fmt::format("the loss {} and {}", falls, rises);
}

// The reason why a rate is wrong, and a better rate.
struct WrongRate {
  std::string found;
  bool too_high;
  double better;
};
Fault fault_of(double rate, const WrongRate& wrong) {
  return {fmt::format("{} = {:.1e}: {}", key::learning_rate.name, rate, wrong.found),
          wrong.too_high ? "the steps are too large, so that training diverges"
                         : "the steps are too small to change the weights",
          fmt::format("--set {}={:.0e}", key::learning_rate.name, wrong.better)};
}

}  // namespace

// Runs the range test. Then compares a few steps at the configured rate with a few at a hundredth
// of this rate, which learn almost nothing if the configured rate is good, and learn more if it is
// far too high.
CheckResult check_learning_rate(TrainingUnderTest& under_test) {
  under_test.reset();
  const double peak = under_test.config()[key::learning_rate];
  const Sweep found = sweep(under_test);
  under_test.reset();
  if (std::ssize(found.smoothed) <= quiet_steps)
    return {.fault = Fault{"the loss is not finite, or diverges, at the lowest learning rates",
                           "the model is numerically unstable",
                           "--set train.check_finite=true names the op"}};
  CheckResult result{.said = fmt::format("{}; learning rate {:.1e}", range_of(found), peak),
                     .figure = figure_of(found, peak)};
  const auto stop = [&](const WrongRate& wrong) {
    result.fault = fault_of(peak, wrong);
    return result;
  };
  if (const double rate = under_test.overfitting_rate(); rate >= far_lower * peak && rate > 0)
    return stop(
        {fmt::format("one batch was overfitted at {:.0e}, not at this rate", rate), false, rate});
  if (peak >= found.rises) return stop({range_of(found), true, advised_rate(found)});
  const Outcome at_peak = outcome_of(under_test, peak), below = outcome_of(under_test, peak / 100);
  under_test.reset();
  const std::string outcomes =
      fmt::format("{} steps reach a loss of {:.4g} at this rate and {:.4g} at a hundredth of it",
                  steps_at_one_rate, at_peak.loss, below.loss);
  result.said += "; " + outcomes;
  if (std::abs(at_peak.loss - below.loss) <= least_change * std::abs(below.loss))
    return stop({outcomes, false, advised_rate(found)});
  if (is_worse(at_peak, below)) {
    const std::int64_t warm_up = under_test.config()[key::warmup_steps];
    if (warm_up <= steps_of_warm_up || is_worse(outcome_of(under_test, peak, warm_up), below))
      return stop({outcomes, true, std::min(advised_rate(found), peak / 10)});
    result.warnings.push_back(
        fmt::format("{} = {} is needed: with {} warm-up steps the loss rises at first",
                    key::warmup_steps.name, warm_up, steps_of_warm_up));
    under_test.reset();
  }
  if (const auto& [name, factor] = at_peak.growth; factor > far_larger)
    return stop({fmt::format("{} steps at this rate make {} {:.0f} times as large",
                             steps_at_one_rate, name, factor),
                 true, std::min(advised_rate(found), peak / factor)});
  return result;
}

}  // namespace tapestry
