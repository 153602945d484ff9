#include "train/tools/doctor/objective.hpp"

#include <algorithm>

#include "autograd/kernels/broadcast.hpp"
#include "train/config/keys.hpp"

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

}  // namespace tapestry
