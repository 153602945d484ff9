#include <fmt/format.h>

#include <cmath>

#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/comparison.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_examples_looked_at = 64;
constexpr double high = 2;         // times what says nothing: to be said
constexpr double far_below = 0.5;  // times what is known by counts

const char* unit_of(const Comparison& seen) {
  return seen.kind == Comparison::Kind::squared_error ? "" : " nats";
}

}  // namespace

// Karpathy 2019, "A Recipe for Training Neural Networks": "verify loss @ init".
CheckResult check_first_loss(TrainingUnderTest& under_test) {
  under_test.begin_anew();
  const std::int64_t most =
      under_test.step_s() > 0.1 ? under_test.config()[key::batch_size] : most_examples_looked_at;
  const Examples examples = under_test.training_examples(most);
  const Comparison seen = compare_outputs(under_test.task(), under_test.config(), examples);
  const MetricSum loss =
      quiet_loss(under_test.task(), under_test.config(), examples).averages.at("loss");
  if (!std::isfinite(loss.value()))
    return {.fault = Fault{fmt::format("the loss before the first step is {}", loss.value()),
                           "it divides by 0, or takes the logarithm of what may be 0",
                           "--set train.check_finite=true names the op it comes from"}};
  if (seen.kind == Comparison::Kind::unknown)
    return {.said = fmt::format("{:.4g}, by an op that is not known here", loss.value()),
            .skipped = true};
  const double error = seen.error(), naive = seen.naive(), blind = seen.blind();
  const bool of_classes = seen.kind == Comparison::Kind::cross_entropy;
  const bool is_untrained = under_test.config()[key::from].empty();
  const char* unit = unit_of(seen);
  CheckResult result{.said = fmt::format("{:.4g}{}; of outputs that say nothing {:.4g}, of the "
                                         "targets' frequencies alone {:.4g}",
                                         error, unit, naive, blind)};
  if (is_untrained && error > high * naive)
    result.warnings.push_back(
        fmt::format("{:.0f} times what says nothing (from {:.0f} times on this is said): the first "
                    "weights are large, so that it is sure of what it cannot know",
                    error / naive, high));
  if (is_untrained && of_classes && error < far_below * blind)
    result.fault = Fault{
        fmt::format("the untrained model's loss is {:.4g}{}, far below the entropy of the targets, "
                    "{:.4g}",
                    error, unit, blind),
        "the answer leaks into what the model reads", "look for the targets among the inputs"};
  else if (of_classes && std::abs(loss.value() - error) > 0.1 * error)
    result.fault = Fault{
        fmt::format("the loss that is reported is {:.4g}, that of its outputs {:.4g}{} a target",
                    loss.value(), error, unit),
        "what is averaged is not divided by the targets that count",
        "Batch::count has to be the number of targets that are not ignored"};
  return result;
}

}  // namespace tapestry
