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
    return {.said = fmt::format("{} arrays compared with differences in float64 along one "
                                "direction: error {:.0e}",
                                parameters.size(), result.error)};
  return {.fault = Fault{
              fmt::format("the gradient differs from differences in float64 by {:.0e} of its "
                          "norm; the last array that is wrong is {}",
                          result.error, result.name),
              "the pullback of an op is wrong: one that reads that array, or an op after it and "
              "before the next array",
              "`tapestry gradcheck CONFIG` checks each array; compare the ops there with their "
              "formulas"}};
}

}  // namespace tapestry
