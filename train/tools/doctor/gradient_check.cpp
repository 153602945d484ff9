#include <fmt/format.h>

#include "autograd/gradcheck.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/objective.hpp"

namespace tapestry {

CheckResult check_gradient(TrainingUnderTest& under_test) {
  under_test.begin_in_float64();
  const auto objective = objective_in_float64(under_test.task(), under_test.config());
  const std::vector<Parameter*> parameters = under_test.parameters();
  const GradcheckResult result = gradcheck_together(objective, parameters);
  if (result.passed)
    return {.said = fmt::format("{} arrays, by differences in float64 along one direction: error "
                                "{:.0e}",
                                parameters.size(), result.error)};
  return {.fault = Fault{
              fmt::format("the gradient differs from differences in float64 by {:.0e} of its "
                          "length; the last array that is wrong is {}",
                          result.error, result.name),
              "an op's pullback is wrong: of that array, or of what is computed from it before the "
              "next array",
              "`tapestry gradcheck CONFIG` checks each array; compare each op there with its "
              "formula"}};
}

}  // namespace tapestry
