#include "train/tools/doctor/gradient_check.hpp"

#include <algorithm>

#include "autograd/gradcheck.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"

namespace tapestry {
void to_float64_aside(Module& model) {
  model.convert(DType::float64);
  Random random(0, Stream::init);
  for (Parameter* parameter : model.parameters()) {
    if (parameter->role == Role::fixed) continue;
    Array value = parameter->value(), aside(value.shape(), DType::float64);
    random.fill_normal(aside, 0, 0.01);
    add_in_place(value, aside);
  }
}

Batch in_float64(Batch batch) {
  if (batch.inputs.dtype() == DType::float32) batch.inputs = batch.inputs.to(DType::float64);
  return batch;
}

std::function<Tensor()> objective_in_float64(Task& task, const Config& config) {
  const Dataset& data = task.training_data();
  const std::int64_t count = std::min<std::int64_t>(2, data.size());
  Sampler sampler(data.size(), task.order(), seed_of(config),
                  {.batch = count, .lengths = data.lengths()});
  return [&task, batch = in_float64(data.batch(sampler.next(count))), seed = seed_of(config),
          steps = config[key::steps]] {
    Random noise(seed, Stream::dropout);
    // After any warm-up: every term of the loss counts.
    return task.loss(batch, {.training = true, .step = steps, .noise = &noise}).objective;
  };
}

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
