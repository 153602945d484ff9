#include "train/trainer/step.hpp"

#include "train/config/keys.hpp"

namespace tapestry {

Sampler make_sampler(Task& task, const Config& config) {
  const Dataset& data = task.training_data();
  return Sampler(data.size(), task.order(), seed_of(config),
                 {.batch = config[key::batch_size], .lengths = data.lengths()});
}

Loss StepInputs::loss(std::size_t i) const {
  const std::int64_t micro_batch = first_micro_batch + static_cast<std::int64_t>(i);
  Random noise(seed_of(config), Stream::dropout,
               static_cast<std::uint64_t>(step * config[key::micro_batches] + micro_batch));
  return task.loss(batches[i], {.training = true, .step = step, .noise = &noise});
}

std::vector<std::int64_t> StepInputs::examples() const {
  Sampler sampler = make_sampler(task, config);
  sampler.seek(position);
  return sampler.next(config[key::batch_size]);
}

std::vector<std::int64_t> StepInputs::examples(std::size_t i) const {
  const std::vector<std::int64_t> all = examples();
  const std::int64_t size = std::ssize(all) / config[key::micro_batches];
  const auto begin = all.begin() + (first_micro_batch + static_cast<std::int64_t>(i)) * size;
  return {begin, begin + size};
}

bool is_evaluated(std::int64_t step, const Config& config) {
  const std::int64_t every = config[key::eval_every];
  return step == config[key::steps] || (every > 0 && step % every == 0);
}

}  // namespace tapestry
