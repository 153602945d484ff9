#include <fmt/format.h>

#include "autograd/gradcheck.hpp"
#include "train/tools/doctor/check.hpp"

namespace tapestry {

CheckResult check_gradient(TrainingUnderTest& under_test) {
  under_test.reset_in_float64();
  const auto objective = objective_in_float64(under_test.task(), under_test.config());
  const std::vector<Parameter*> parameters = under_test.parameters();
  const GradcheckResult result = gradcheck_together(objective, parameters);
  if (result.passed)
    return {.said = fmt::format(
                "{} parameters agree with finite differences in float64 (relative error "
                "{:.0e})",
                parameters.size(), result.error)};
  return {
      .fault = Fault{
          fmt::format("the gradient differs from finite differences in float64 by {:.0e} of its "
                      "norm; the last wrong parameter is {}",
                      result.error, result.name),
          "the backward pass of an op is wrong: one that reads this parameter, or a later op "
          "before the next parameter",
          "check each parameter with `tapestry gradcheck CONFIG`, and the ops there against their "
          "formulas"}};
}

}  // namespace tapestry
