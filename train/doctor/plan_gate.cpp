#include <fmt/ranges.h>

#include "train/doctor/gate.hpp"
#include "train/plan/plan.hpp"

namespace tapestry {
namespace {

constexpr double seconds_to_measure = 1;

std::string megabytes(std::int64_t bytes) {
  const double millions = static_cast<double>(bytes) / 1e6;
  return fmt::format("{:.{}f} MB", millions, millions < 10 ? 1 : 0);
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string advice_of(const std::optional<Change>& change) {
  if (!change)
    return "no change that keeps what is learnt makes it fit: a smaller model or batch would";
  return fmt::format("--set {}: {}", fmt::join(change->overrides, " --set "), change->cost);
}

}  // namespace

// Of the config as it was given, at its full size.
GateVerdict check_plan(Patient& patient) {
  const TrainingPlan plan = plan_training(patient.config_with(), {.seconds = seconds_to_measure});
  GateVerdict verdict{.said = fmt::format("{} of {}, {} of disk", megabytes(plan.needs()),
                                          megabytes(plan.machine), megabytes(plan.disk))};
  if (plan.pace)
    verdict.said += fmt::format("; {} steps of {:.3g} s, in all about {}", plan.course.steps,
                                plan.pace->step_s, duration(seconds_of(plan.course, *plan.pace)));
  if (!plan.fits())
    verdict.fault = Fault{fmt::format("the training needs {} of memory, and may have {}",
                                      megabytes(plan.needs()), megabytes(plan.machine)),
                          "the model, its batch or its context is too large for this machine",
                          advice_of(plan.smallest)};
  else if (plan.disk > plan.disk_free)
    verdict.fault =
        Fault{fmt::format("its folder takes {}, and {} are free", megabytes(plan.disk),
                          megabytes(plan.disk_free)),
              "the disk is too small, or full", "free some, or train elsewhere: --out DIR"};
  return verdict;
}

}  // namespace tapestry
