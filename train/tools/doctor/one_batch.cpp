#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/comparison.hpp"
#include "train/tools/doctor/steps.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t fewest_to_learn = 2, most_to_learn = 8;
constexpr std::int64_t fewest_steps = 40, most_steps = 640, first_steps = 10;
constexpr double longest_s = 60;
constexpr std::int64_t steps_of_rise = 10;
constexpr double least_room = 0.02;

// A loss that only what was learnt comes below.
struct Mark {
  double loss = 0;
  const char* meaning = "";
};

// What one batch's loss goes to, and what it has to come below.
struct Learned {
  double first = 0, last = 0;
  Mark wanted{};
  std::int64_t steps = 0;
  bool reached() const { return last < wanted.loss; }
};

// Half way from what a model blind to its inputs reaches to what there is to reach, unless these
// are about one, as of examples of one class. First weights that are large move no mark.
Mark mark_of(const Comparison& seen, double first) {
  if (seen.kind == Comparison::Kind::unknown) return {first / 2, "half of the first loss"};
  const double floor = seen.floor(), naive = seen.naive(), room = seen.blind_by_place() - floor;
  if (room > least_room * (std::min(first, naive) - floor))
    return {floor + room / 2,
            "half way from what a model reaches that does not look at its inputs"};
  return {floor + (naive - floor) / 10, "a tenth of what outputs have that say nothing"};
}

double error_of(TrainingUnderTest& under_test, const Examples& examples) {
  const Comparison seen = compare_outputs(under_test.task(), under_test.config(), examples);
  if (seen.kind != Comparison::Kind::unknown) return seen.error();
  return quiet_loss(under_test.task(), under_test.config(), examples).averages.at("loss").value();
}

// Looks at it after 10 steps, 15, 23, …
Learned learn(TrainingUnderTest& under_test, const Examples& examples, double rate,
              std::int64_t limit) {
  under_test.begin_anew();
  Steps steps(under_test);
  Learned learnt{.first = error_of(under_test, examples)};
  learnt.wanted =
      mark_of(compare_outputs(under_test.task(), under_test.config(), examples), learnt.first);
  for (std::int64_t look = first_steps; learnt.steps < limit; look += (look + 1) / 2) {
    for (; learnt.steps < std::min(look, limit); ++learnt.steps)
      steps.without_dropout(examples, rate * std::min(1.0, (learnt.steps + 1.0) / steps_of_rise));
    learnt.last = error_of(under_test, examples);
    if (learnt.reached() || !std::isfinite(learnt.last)) break;
  }
  return learnt;
}

}  // namespace

// Karpathy 2019: "overfit one batch". At the configured learning rate, or else at usual ones: the
// rate has a gate of its own.
CheckResult check_one_batch(TrainingUnderTest& under_test) {
  const std::int64_t batch = under_test.config()[key::batch_size];
  const Examples examples =
      under_test.training_examples(std::clamp(batch, fewest_to_learn, most_to_learn));
  const double step_s = under_test.step_s() * static_cast<double>(examples.numbers.size()) /
                        static_cast<double>(batch);
  const auto limit = static_cast<std::int64_t>(
      std::clamp(longest_s / std::max(1e-6, step_s), double(fewest_steps), double(most_steps)));
  const double configured = under_test.config()[key::learning_rate];
  Learned learnt, first_try;
  double used = 0;
  for (const double rate : {configured, usual_rate, 10 * usual_rate, 100 * usual_rate}) {
    learnt = learn(under_test, examples, used = rate, rate == configured ? limit : limit / 2);
    if (rate == configured) first_try = learnt;
    if (learnt.reached()) break;
  }
  under_test.begin_anew();
  const auto course = [&](const Learned& of) {
    return fmt::format("{} examples, over and over: from {:.4g} to {:.4g} in {} steps",
                       examples.numbers.size(), of.first, of.last, of.steps);
  };
  CheckResult result{
      .said = fmt::format("{} (below {:.4g} is learnt)", course(learnt), learnt.wanted.loss)};
  if (learnt.reached()) under_test.record_learned_at(used);
  if (!learnt.reached())
    result.fault =
        Fault{fmt::format("{}; below {:.4g}, {}, would be learnt", course(first_try),
                          first_try.wanted.loss, first_try.wanted.meaning),
              "the inputs do not reach the outputs, or the model is too small for so little",
              "look at how the model uses its inputs; neither does another learning rate help"};
  else if (used != configured)
    result.warnings.push_back(
        fmt::format("at a learning rate of {:.0e}; at {:.1e}, as configured, "
                    "it was not learnt",
                    used, configured));
  return result;
}

}  // namespace tapestry
